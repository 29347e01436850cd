# Installs the build, builds the program of docs/cpp.md against that, runs it, and compares what it
# prints with what the page says. cmake -Dbuild=... -Dsource=... -P run.cmake
set(here "${build}/tests/installed")
file(REMOVE_RECURSE "${here}")

file(READ "${source}/docs/cpp.md" page)
string(REGEX MATCH "```cpp\n([^`]*)```" _ "${page}")
set(program "${CMAKE_MATCH_1}")
string(REGEX MATCH "```text\n([^`]*)```" _ "${page}")
set(says "${CMAKE_MATCH_1}")
file(WRITE "${here}/main.cpp" "${program}")
configure_file("${source}/tests/cpp/installed/CMakeLists.txt" "${here}/CMakeLists.txt" COPYONLY)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(status)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${status}\n${output}${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("${CMAKE_COMMAND}" --install "${build}" --prefix "${here}/prefix")
run("${CMAKE_COMMAND}" -S "${here}" -B "${here}/build" "-DCMAKE_PREFIX_PATH=${here}/prefix")
run("${CMAKE_COMMAND}" --build "${here}/build")
run("${here}/build/hello")
if(NOT output STREQUAL says)
  message(FATAL_ERROR "docs/cpp.md says\n${says}but its program prints\n${output}")
endif()
