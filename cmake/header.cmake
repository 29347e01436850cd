# flambeau/torch.h, what C++ programs include: printed from the registry of the library just built.
file(GLOB printer_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/flambeau/api/print/*.cpp")
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
add_custom_command(OUTPUT "${torch_header}"
  COMMAND ${run_flambeau_header} header "${torch_header}"
  DEPENDS flambeau_header flambeau ${kernel_libraries}
  COMMENT "Printing flambeau/torch.h")
add_custom_target(flambeau_torch_header ALL DEPENDS "${torch_header}")

# What a C++ program links.
add_library(flambeau_torch INTERFACE)
target_include_directories(flambeau_torch INTERFACE "${FLAMBEAU_PACKAGE_DIR}/include")
target_link_libraries(flambeau_torch INTERFACE flambeau)
add_dependencies(flambeau_torch flambeau_torch_header)
