# libflambeau_cuda: the CUDA backend. A library of its own, loaded on the first use of a CUDA device.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/flambeau/cuda/*.cu" "${CMAKE_SOURCE_DIR}/flambeau/cuda/*.cpp")
string(TOUPPER "${FLAMBEAU_CUDA}" want_cuda)
if(NOT want_cuda OR NOT cuda_sources)
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  find_program(nvcc nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  if(nvcc)
    set(CMAKE_CUDA_COMPILER "${nvcc}")
  elseif(want_cuda STREQUAL "AUTO")
    message(STATUS "No CUDA toolkit found: building without the CUDA library")
    return()
  else()
    message(FATAL_ERROR "FLAMBEAU_CUDA=${FLAMBEAU_CUDA}, but nvcc is neither on PATH nor in CUDA_HOME")
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${FLAMBEAU_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -Xcompiler=-g1")
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)

# cuDNN is loaded when it is first needed; building needs its headers, from the toolkit's folder or
# from NVIDIA's Python package.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])"
  OUTPUT_VARIABLE cudnn_package ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(FLAMBEAU_CUDNN_INCLUDE_DIR cudnn.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "${cudnn_package}/include")
if(NOT FLAMBEAU_CUDNN_INCLUDE_DIR)
  message(STATUS "No cuDNN headers found: building the CUDA library without convolutions")
  list(FILTER cuda_sources EXCLUDE REGEX "/cuda/(cudnn/|nn/conv)")
endif()
# cuRAND's device functions are headers alone.
find_path(FLAMBEAU_CURAND_INCLUDE_DIR curand_kernel.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "${cudnn_package}/../cu13/include")
if(FLAMBEAU_CURAND_INCLUDE_DIR)
  set_source_files_properties("${CMAKE_SOURCE_DIR}/flambeau/cuda/random/poisson.cu" PROPERTIES
    INCLUDE_DIRECTORIES "${FLAMBEAU_CURAND_INCLUDE_DIR}")
else()
  message(STATUS "No cuRAND headers found: building the CUDA library without Poisson samples")
  list(FILTER cuda_sources EXCLUDE REGEX "/random/poisson\\.cu$")
endif()

add_library(flambeau_cuda SHARED ${cuda_sources})
set_source_files_properties("${CMAKE_SOURCE_DIR}/flambeau/cuda/runtime/driver_tools.cpp" PROPERTIES
  COMPILE_DEFINITIONS "FLAMBEAU_CUDA_ARCHITECTURES=\"${FLAMBEAU_CUDA_ARCHITECTURES}\"")
target_compile_options(flambeau_cuda PRIVATE
  # 186: formulas for all integers compare unsigned ones with zero.
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--diag-suppress=186;-Xcompiler=-Wall,-Wextra>")
# The libraries of the toolkit, at run time, are NVIDIA's Python packages or the system's toolkit.
target_link_libraries(flambeau_cuda PRIVATE flambeau CUDA::cudart CUDA::cublasLt CUDA::cublas
  ${CMAKE_DL_LIBS})
if(FLAMBEAU_CUDNN_INCLUDE_DIR)
  target_include_directories(flambeau_cuda SYSTEM PRIVATE "${FLAMBEAU_CUDNN_INCLUDE_DIR}")
endif()
set_target_properties(flambeau_cuda PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR};${cudnn_package}/lib;${cudnn_package}/../cu13/lib"
  INSTALL_RPATH
    "$ORIGIN;$ORIGIN/../nvidia/cu13/lib;$ORIGIN/../nvidia/cudnn/lib;/usr/local/cuda/lib64")
install(TARGETS flambeau_cuda LIBRARY DESTINATION ${library_destination})
