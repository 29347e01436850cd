# What `cmake --install` gives C++ programs: headers, libraries and find_package(Flambeau). Wheels
# have a layout of their own.
install(DIRECTORY "${CMAKE_SOURCE_DIR}/flambeau" DESTINATION include
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
  PATTERN "flambeau/cpu" EXCLUDE PATTERN "flambeau/cuda" EXCLUDE PATTERN "api/print" EXCLUDE)
install(FILES "${torch_header}" DESTINATION include/flambeau)

include(CMakePackageConfigHelpers)
set(version_file "${CMAKE_BINARY_DIR}/FlambeauConfigVersion.cmake")
write_basic_package_version_file("${version_file}" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_SOURCE_DIR}/cmake/FlambeauConfig.cmake" "${version_file}"
  DESTINATION lib/cmake/Flambeau)
