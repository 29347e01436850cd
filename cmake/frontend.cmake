# libflambeau_nn: modules, optimizers and data for C++ programs. It is written against the printed
# header, as they are.
file(GLOB_RECURSE frontend_sources CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/flambeau/nn/*.cpp" "${CMAKE_SOURCE_DIR}/flambeau/optim/*.cpp"
  "${CMAKE_SOURCE_DIR}/flambeau/data/*.cpp" "${CMAKE_SOURCE_DIR}/flambeau/frontend/*.cpp")
add_library(flambeau_nn SHARED ${frontend_sources})
target_link_libraries(flambeau_nn PUBLIC flambeau_torch)
target_include_directories(flambeau_nn INTERFACE "${CMAKE_SOURCE_DIR}/compat")
precompile(flambeau_nn PRIVATE flambeau/nn/module.h)
set_target_properties(flambeau_nn PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "${build_rpath}"
  INSTALL_RPATH "${package_rpath}"
  LINK_DEPENDS_NO_SHARED ON)
install(TARGETS flambeau_nn LIBRARY DESTINATION ${library_destination})
