# find_package(Torch) for programs written for libtorch: the same names, Flambeau behind them. It
# asks for no CUDA toolkit.
include("${CMAKE_CURRENT_LIST_DIR}/../Flambeau/FlambeauConfig.cmake")
if(NOT TARGET torch)
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${FLAMBEAU_PREFIX}/include/flambeau/compat"
    INTERFACE_LINK_LIBRARIES Flambeau::nn)
  foreach(part IN ITEMS torch_library torch_cpu c10)
    add_library(${part} INTERFACE IMPORTED)
    set_target_properties(${part} PROPERTIES INTERFACE_LINK_LIBRARIES torch)
  endforeach()
endif()
set(TORCH_INSTALL_PREFIX "${FLAMBEAU_PREFIX}")
set(TORCH_INCLUDE_DIRS "${FLAMBEAU_PREFIX}/include" "${FLAMBEAU_PREFIX}/include/flambeau/compat")
set(TORCH_LIBRARY torch)
set(TORCH_LIBRARIES torch)
set(TORCH_CXX_FLAGS "")
set(TORCH_FOUND TRUE)
