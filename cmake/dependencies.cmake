# Finds what the libraries stand on: Python, and oneDNN and OpenBLAS, which are
# ordinary Python packages (see docs/dependencies.md), so the building interpreter knows their place.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Sets `result` to the absolute path of `file` as installed by the Python package `package`.
function(find_packaged_file result package file)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/find_packaged_file.py" "${package}" "${file}"
    OUTPUT_VARIABLE path ERROR_VARIABLE error RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status)
    message(FATAL_ERROR "${error}")
  endif()
  set(${result} "${path}" PARENT_SCOPE)
endfunction()

find_packaged_file(dnnl_library onednn-cpu-gomp libdnnl.so.3)
find_packaged_file(dnnl_header onednn-devel-cpu-gomp include/dnnl.h)
find_packaged_file(openblas_library scipy-openblas32 libscipy_openblas.so)
find_packaged_file(openblas_header scipy-openblas32 include/cblas.h)

function(import_library target library header)
  get_filename_component(include_dir "${header}" DIRECTORY)
  add_library(${target} SHARED IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES "${include_dir}")
endfunction()

import_library(dnnl "${dnnl_library}" "${dnnl_header}")
import_library(openblas "${openblas_library}" "${openblas_header}")
