# find_package(Flambeau) gives Flambeau::flambeau (tensors and ops) and Flambeau::nn (the whole front
# end), which bring headers and C++20 along. It asks for no toolkit: the library finds what it needs
# beside itself when a program starts.
get_filename_component(FLAMBEAU_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
# In a Python package the libraries lie beside include/ and share/.
set(FLAMBEAU_LIBRARY_DIR "${FLAMBEAU_PREFIX}/lib")
if(NOT EXISTS "${FLAMBEAU_LIBRARY_DIR}/libflambeau.so")
  set(FLAMBEAU_LIBRARY_DIR "${FLAMBEAU_PREFIX}")
endif()
if(NOT TARGET Flambeau::flambeau)
  add_library(Flambeau::core SHARED IMPORTED)
  set_target_properties(Flambeau::core PROPERTIES
    IMPORTED_LOCATION "${FLAMBEAU_LIBRARY_DIR}/libflambeau.so"
    INTERFACE_INCLUDE_DIRECTORIES "${FLAMBEAU_PREFIX}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
  add_library(Flambeau::flambeau SHARED IMPORTED)
  set_target_properties(Flambeau::flambeau PROPERTIES
    IMPORTED_LOCATION "${FLAMBEAU_LIBRARY_DIR}/libflambeau_torch.so"
    INTERFACE_LINK_LIBRARIES Flambeau::core)
  add_library(Flambeau::nn SHARED IMPORTED)
  set_target_properties(Flambeau::nn PROPERTIES
    IMPORTED_LOCATION "${FLAMBEAU_LIBRARY_DIR}/libflambeau_nn.so"
    INTERFACE_LINK_LIBRARIES Flambeau::flambeau)
endif()
