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

set(flags -std=c++20 "-I${prefix}/include" "-L${prefix}/lib" "-Wl,-rpath,${prefix}/lib")
run("${compiler}" main.cpp -o by_hand ${flags} -lflambeau_torch -lflambeau)
check("bare compiler" "${here}/by_hand")

# The other compiler takes the headers, all of them, and is told what it is to be called with.
find_program(clang clang++)
if(clang)
  run("${clang}" main.cpp -o by_clang ${flags} -lflambeau_torch -lflambeau)
  check(clang "${here}/by_clang")
  set(compat "-I${prefix}/include/flambeau/compat")
  run("${clang}" -Wall -Wextra -Werror "${source}/examples/cpp/mnist.cpp" -o mnist ${flags} ${compat}
    -lflambeau_nn -lflambeau_torch -lflambeau)
  file(WRITE "${here}/old.cpp" "#include <torch/torch.h>\n")
  execute_process(COMMAND "${clang}" -std=c++17 -fsyntax-only "${here}/old.cpp" "-I${prefix}/include"
    ${compat} RESULT_VARIABLE status ERROR_VARIABLE error OUTPUT_QUIET)
  if(NOT status OR NOT error MATCHES "^[^\n]*\n[^\n]*Flambeau needs C[+][+]20")
    message(FATAL_ERROR "C++17 is not refused at once:\n${error}")
  endif()
endif()
