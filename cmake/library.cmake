# libflambeau: the C++ library with its CPU backend.
set(folders base tensor kernels autograd ops nn optim io dist cpu)
list(TRANSFORM folders REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/flambeau/\\1/*.cpp" OUTPUT_VARIABLE patterns)
file(GLOB sources CONFIGURE_DEPENDS ${patterns})
file(GLOB kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/flambeau/cpu/kernels/*.cpp")
if(NOT sources)
  # A checkout without sources still configures; CMake wants a library to have at least one.
  file(TOUCH "${CMAKE_BINARY_DIR}/empty.cpp")
  set(sources "${CMAKE_BINARY_DIR}/empty.cpp")
endif()

# What all parts of the library are compiled with.
function(configure_part target)
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX dnnl openblas)
endfunction()

add_library(flambeau_core OBJECT ${sources})
configure_part(flambeau_core)
set(parts flambeau_core)

# Every CPU kernel is compiled once per instruction set, into a namespace named after it, and the
# best one that the processor has is chosen when the library is loaded. An inline function that
# several parts instantiate is kept once by the linker, from the first object that has it: the
# parts are therefore linked in ascending order, so that what is shared runs everywhere.
set(isa_flags_v3 -march=x86-64-v3)
set(isa_flags_v4 -march=x86-64-v4 -mprefer-vector-width=512)
foreach(isa IN LISTS FLAMBEAU_ISAS)
  if(NOT DEFINED isa_flags_${isa})
    message(FATAL_ERROR "FLAMBEAU_ISAS: unknown instruction set '${isa}', known are v3 and v4")
  endif()
  target_compile_definitions(flambeau_core PRIVATE FLAMBEAU_HAS_ISA_${isa}=1)
  if(kernel_sources)
    add_library(flambeau_cpu_${isa} OBJECT ${kernel_sources})
    configure_part(flambeau_cpu_${isa})
    target_compile_definitions(flambeau_cpu_${isa} PRIVATE FLAMBEAU_ISA=${isa})
    target_compile_options(flambeau_cpu_${isa} PRIVATE
      ${isa_flags_${isa}} -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast)
    list(APPEND parts flambeau_cpu_${isa})
  endif()
endforeach()

list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(flambeau SHARED ${objects})
target_include_directories(flambeau INTERFACE "${CMAKE_SOURCE_DIR}")
target_link_libraries(flambeau PUBLIC OpenMP::OpenMP_CXX PRIVATE dnnl openblas mvec m dl)

# Where an installed library finds oneDNN (a package's data file: lib/ of the environment, or of
# the target of `pip install --target`) and OpenBLAS (inside its package).
set(package_rpath "$ORIGIN" "$ORIGIN/../../.." "$ORIGIN/../lib" "$ORIGIN/../scipy_openblas32/lib")
# A development build can be moved together with its environment: its paths are relative too.
set(build_rpath "$ORIGIN")
foreach(library IN ITEMS "${dnnl_library}" "${openblas_library}")
  get_filename_component(directory "${library}" DIRECTORY)
  file(RELATIVE_PATH relative "${FLAMBEAU_PACKAGE_DIR}" "${directory}")
  list(APPEND build_rpath "$ORIGIN/${relative}")
endforeach()
set_target_properties(flambeau PROPERTIES
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "${build_rpath}"
  INSTALL_RPATH "${package_rpath}")
install(TARGETS flambeau LIBRARY DESTINATION flambeau)
