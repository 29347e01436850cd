# The C++ tests: one GoogleTest program out of tests/cpp, run by ctest.
file(GLOB test_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/cpp/*.cpp")
if(NOT test_sources)
  return()
endif()

enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)
add_executable(flambeau_tests ${test_sources})
target_link_libraries(flambeau_tests PRIVATE flambeau GTest::gtest GTest::gtest_main)
gtest_discover_tests(flambeau_tests DISCOVERY_MODE PRE_TEST)
