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
add_executable(flambeau_tests ${test_sources} ${allocator_sources})
target_link_libraries(flambeau_tests PRIVATE flambeau_torch GTest::gtest GTest::gtest_main)
gtest_discover_tests(flambeau_tests DISCOVERY_MODE PRE_TEST)
