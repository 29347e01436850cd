# find_package(Flambeau) gives Flambeau::flambeau, which brings headers and C++20 along. It asks for
# no toolkit: the library finds what it needs beside itself when a program starts.
get_filename_component(_flambeau_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Flambeau::flambeau)
  add_library(Flambeau::flambeau SHARED IMPORTED)
  set_target_properties(Flambeau::flambeau PROPERTIES
    IMPORTED_LOCATION "${_flambeau_prefix}/lib/libflambeau.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_flambeau_prefix}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
unset(_flambeau_prefix)
