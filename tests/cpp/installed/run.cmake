# Installs the build, moves what was installed, and builds the program of docs/cpp.md against it in
# the ways that the page names; runs each, and compares what it prints with what the page says.
# cmake -Dbuild=... -Dsource=... -Dpackage_dir=... -Dcompiler=... -P run.cmake
set(here "${build}/tests/installed")
file(REMOVE_RECURSE "${here}")
set(prefix "${here}/moved")

file(READ "${source}/docs/cpp.md" page)
string(REGEX MATCH "```cpp\n([^`]*)```" _ "${page}")
set(program "${CMAKE_MATCH_1}")
string(REGEX MATCH "```text\n([^`]*)```" _ "${page}")
set(says "${CMAKE_MATCH_1}")
file(WRITE "${here}/main.cpp" "${program}")
configure_file("${source}/tests/cpp/installed/CMakeLists.txt" "${here}/CMakeLists.txt" COPYONLY)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error
    WORKING_DIRECTORY "${here}")
  if(status)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${status}\n${output}${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(check way)
  run(${ARGN})
  if(NOT output STREQUAL says)
    message(FATAL_ERROR "${way}: docs/cpp.md says\n${says}but its program prints\n${output}")
  endif()
endfunction()

function(with_cmake way)
  run("${CMAKE_COMMAND}" -S "${here}" -B "${here}/${way}" "-DCMAKE_CXX_COMPILER=${compiler}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${here}/${way}")
  check("${way}" "${here}/${way}/hello")
endfunction()

run("${CMAKE_COMMAND}" --install "${build}" --prefix "${here}/prefix")
file(RENAME "${here}/prefix" "${prefix}")
# The package of the build has the same layout.
with_cmake(flambeau "-DCMAKE_PREFIX_PATH=${prefix}" -Dpackage=Flambeau -Dlibrary=link
  "-Dlink=Flambeau::flambeau")
with_cmake(torch_before "-DCMAKE_PREFIX_PATH=${prefix}" -Dpackage=Torch -Dlibrary=TORCH_LIBRARIES
  -Dbefore=17)
with_cmake(torch_after "-DTorch_DIR=${package_dir}/share/cmake/Torch" -Dpackage=Torch -Dlibrary=TORCH_LIBRARIES
  -Dafter=14)

find_program(pkg_config pkg-config)
if(pkg_config)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
  run("${pkg_config}" --cflags --libs flambeau)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run("${compiler}" main.cpp -o by_pkg_config ${flags})
  check(pkg-config "${here}/by_pkg_config")
endif()

run("${compiler}" -std=c++20 main.cpp -o by_hand "-I${prefix}/include" "-L${prefix}/lib"
  "-Wl,-rpath,${prefix}/lib" -lflambeau_torch -lflambeau)
check("bare compiler" "${here}/by_hand")
