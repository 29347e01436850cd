# flambeau/torch.h, what C++ programs include: printed from the registry of the library just built.
file(GLOB printer_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tools/header/*.cpp")
add_executable(flambeau_header ${printer_sources})
# Not linked again with the library: the header is printed again, and if it says the same, the tests
# keep the arguments that were found for them.
set_target_properties(flambeau_header PROPERTIES
  OUTPUT_NAME flambeau-header LINK_DEPENDS_NO_SHARED ON)
target_link_libraries(flambeau_header PRIVATE flambeau)

# A sanitizer would take the registry, which lives as long as the process, for a leak.
set(run_flambeau_header
  "${CMAKE_COMMAND}" -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:flambeau_header>)

set(torch_header "${FLAMBEAU_PACKAGE_DIR}/include/flambeau/torch.h")
file(MAKE_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}/include/flambeau")
set(torch_bodies "${CMAKE_BINARY_DIR}/printed/torch.cpp")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/printed")
add_custom_command(OUTPUT "${torch_header}" "${torch_bodies}"
  COMMAND ${run_flambeau_header} header "${torch_header}"
  COMMAND ${run_flambeau_header} bodies "${torch_bodies}"
  DEPENDS flambeau_header flambeau ${kernel_libraries}
  COMMENT "Printing flambeau/torch.h")

# libflambeau_torch: torch::Tensor and all ops. What a C++ program links.
add_library(flambeau_torch SHARED "${torch_header}" "${torch_bodies}")
set_source_files_properties("${torch_bodies}" PROPERTIES COMPILE_OPTIONS -Os)
target_include_directories(flambeau_torch PUBLIC "${FLAMBEAU_PACKAGE_DIR}/include")
target_link_libraries(flambeau_torch PUBLIC flambeau)
set_target_properties(flambeau_torch PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "${build_rpath}"
  INSTALL_RPATH "${package_rpath}"
  LINK_DEPENDS_NO_SHARED ON)
install(TARGETS flambeau_torch LIBRARY DESTINATION ${library_destination})
