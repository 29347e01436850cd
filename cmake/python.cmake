# flambeau._C: the extension module, placed beside libflambeau.so in the package.
file(GLOB extension_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/python/src/*.cpp")
if(NOT extension_sources)
  return()
endif()

# Written on the C API alone, which keeps calls cheap and the module free of dependencies.
Python_add_library(_C MODULE WITH_SOABI ${extension_sources})
target_include_directories(_C PRIVATE "${CMAKE_SOURCE_DIR}")
target_link_libraries(_C PRIVATE flambeau)
precompile(_C PRIVATE python/src/binding.h)
# What a call of an op or of a tensor's method runs through.
compile_lightly("${CMAKE_SOURCE_DIR}/python/src" arguments construct convert index module_base op out
  overrides registry tensor tensor_attributes tensor_numbers)
# The interpreter provides CPython's symbols when it loads the module.
target_link_options(_C PRIVATE -Wl,-z,undefs)
set_target_properties(_C PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "$ORIGIN"
  INSTALL_RPATH "$ORIGIN")
if(SKBUILD)
  install(TARGETS _C LIBRARY DESTINATION flambeau)
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/python/flambeau" DESTINATION .
    PATTERN "*.so" EXCLUDE PATTERN "__pycache__" EXCLUDE PATTERN "flambeau/include" EXCLUDE
    PATTERN "flambeau/share" EXCLUDE)
  # A machine without a compiler may lack the OpenMP runtime, which oneDNN needs as well.
  file(REAL_PATH "${OpenMP_gomp_LIBRARY}" gomp)
  install(FILES "${gomp}" DESTINATION flambeau RENAME libgomp.so.1)
endif()

# A build that does not place its libraries in the source tree mirrors the package with links, so
# that PYTHONPATH=<its python folder> imports the sources with these libraries.
if(NOT SKBUILD AND NOT FLAMBEAU_PACKAGE_DIR STREQUAL "${CMAKE_SOURCE_DIR}/python/flambeau")
  file(MAKE_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}")
  file(GLOB entries CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/python/flambeau/*")
  list(FILTER entries EXCLUDE REGEX "(\\.so|__pycache__|/include|/share)$")
  foreach(entry IN LISTS entries)
    get_filename_component(name "${entry}" NAME)
    file(CREATE_LINK "${entry}" "${FLAMBEAU_PACKAGE_DIR}/${name}" SYMBOLIC)
  endforeach()
endif()
