# The C++ tests: one GoogleTest program out of tests/cpp, run by ctest.
file(GLOB test_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/cpp/*.cpp")
if(NOT test_sources)
  return()
endif()

enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)
# The CUDA allocator's host logic knows no CUDA and is tested without a GPU.
file(GLOB allocator_sources CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/flambeau/cuda/memory/device_memory*.cpp")
# Calls of every op in every form, printed from the registry. They only have to compile.
set(printed_tests "${CMAKE_BINARY_DIR}/tests/cpp/forms.cpp")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/cpp")
add_custom_command(OUTPUT "${printed_tests}"
  COMMAND ${run_flambeau_header} tests "${printed_tests}"
  DEPENDS flambeau_header "${torch_header}"
  COMMENT "Printing tests/cpp/forms.cpp")
set_source_files_properties("${printed_tests}" PROPERTIES COMPILE_OPTIONS -O0)
add_executable(flambeau_tests ${test_sources} ${printed_tests} ${allocator_sources})
target_link_libraries(flambeau_tests PRIVATE flambeau_nn GTest::gtest GTest::gtest_main)
gtest_discover_tests(flambeau_tests DISCOVERY_MODE PRE_TEST)

# The program of docs/cpp.md against an installed tree. (One with sanitizers would need them, too.)
if(NOT FLAMBEAU_SANITIZE)
  add_test(NAME Installed.ProgramOfTheDocsBuildsAndRuns
    COMMAND "${CMAKE_COMMAND}" "-Dbuild=${CMAKE_BINARY_DIR}" "-Dsource=${CMAKE_SOURCE_DIR}"
      "-Dpackage_dir=${FLAMBEAU_PACKAGE_DIR}" "-Dcompiler=${CMAKE_CXX_COMPILER}"
      -P "${CMAKE_SOURCE_DIR}/tests/cpp/installed/run.cmake")
endif()

# Reads and writes files for tests/compat, which compare them with PyTorch's.
add_executable(flambeau_exchange "${CMAKE_SOURCE_DIR}/tests/cpp/exchange/exchange.cpp")
target_link_libraries(flambeau_exchange PRIVATE flambeau)
# Every layer, for a Python test that compares it with Python's.
add_executable(flambeau_layers "${CMAKE_SOURCE_DIR}/tests/cpp/layers/layers.cpp")
target_link_libraries(flambeau_layers PRIVATE flambeau_nn)

# The examples have to compile.
file(GLOB example_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/examples/cpp/*.cpp")
add_library(flambeau_examples OBJECT ${example_sources})
target_link_libraries(flambeau_examples PRIVATE flambeau_nn)
