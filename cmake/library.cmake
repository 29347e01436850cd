# libflambeau: the C++ library, and the libraries of its CPU kernels.
set(folders base tensor kernels autograd api io dist cpu)
list(TRANSFORM folders REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/flambeau/\\1/*.cpp" OUTPUT_VARIABLE patterns)
file(GLOB sources CONFIGURE_DEPENDS ${patterns})
file(GLOB_RECURSE ops CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/flambeau/ops/*.cpp")
list(APPEND sources ${ops})
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/flambeau/cpu/kernels/*.cpp")

add_library(flambeau SHARED ${sources})
target_include_directories(flambeau PUBLIC "${CMAKE_SOURCE_DIR}")
target_link_libraries(flambeau PUBLIC OpenMP::OpenMP_CXX PRIVATE dnnl openblas m dl)
precompile(flambeau PRIVATE flambeau/autograd/record.h flambeau/ops/op.h flambeau/ops/ops.h)

# Ops whose code runs at every turn of small programs, and shows in their time. The others are
# compiled in two thirds of the time of -O2.
compile_lightly("${CMAKE_SOURCE_DIR}/flambeau/ops"
  elementwise/arithmetic elementwise/elementwise index/slices reduce/geometry reduce/reduce
  shape/views)

# The CPU's kernels: a library for each instruction set, see Note [Instruction sets] in
# flambeau/cpu/kernels/isa.h. flambeau/cpu/isa.cpp, which chooses one, is told which were built.
#
# -O2 with the vectoriser of -O3 compiles in three quarters of its time, and plain loops run as fast.
# Units that keep arrays of lanes in registers need their short loops unrolled, and questions that do
# not change taken out of loops: of -O3 that is all they need, but for one unit. (softmax.cpp says
# itself which loops to unroll.)
set(unrolled_kernels gemm/small nn/attention nn/loss nn/norm reduce/*)
list(TRANSFORM unrolled_kernels REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/flambeau/cpu/kernels/\\1.cpp")
file(GLOB unrolled_kernels CONFIGURE_DEPENDS ${unrolled_kernels})
set_source_files_properties(${unrolled_kernels} PROPERTIES COMPILE_OPTIONS
  "-fpeel-loops;-funswitch-loops")
set_source_files_properties("${CMAKE_SOURCE_DIR}/flambeau/cpu/kernels/reduce/extreme.cpp"
  PROPERTIES COMPILE_OPTIONS -O3)
set(kernel_flags -O2 -ftree-vectorize -fvect-cost-model=dynamic
  -fno-math-errno -fno-trapping-math -ffp-contract=fast)
set(isa_flags_v3 -march=x86-64-v3)
set(isa_flags_v4 -march=x86-64-v4 -mprefer-vector-width=512)
function(add_kernels target isa)
  add_library(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE flambeau mvec m)
  target_compile_definitions(${target} PRIVATE FLAMBEAU_ISA=${isa})
  target_compile_options(${target} PRIVATE ${isa_flags_${isa}} ${kernel_flags})
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")  # so that precompiled headers agree
endfunction()

# Kernels that wider registers do not make faster, as they wait for memory or for one another's
# results, are compiled once, for the least set, and linked into every library.
set(narrow_kernels gemm/sparse index/sort nn/ctc nn/embedding_bag nn/grid_sample nn/pool nn/resample
  scan/logcumsumexp)
list(TRANSFORM narrow_kernels REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/flambeau/cpu/kernels/\\1.cpp")
list(REMOVE_ITEM kernel_sources ${narrow_kernels})
add_kernels(flambeau_cpu v3 OBJECT ${narrow_kernels})
precompile(flambeau_cpu PRIVATE flambeau/cpu/kernels/elementwise/loops.h)

set(kernel_libraries)
foreach(isa IN LISTS FLAMBEAU_ISAS)
  if(NOT DEFINED isa_flags_${isa})
    message(FATAL_ERROR "FLAMBEAU_ISAS: unknown instruction set '${isa}', known are v3 and v4")
  endif()
  add_kernels(flambeau_cpu_${isa} ${isa} SHARED ${kernel_sources})
  target_link_libraries(flambeau_cpu_${isa} PRIVATE flambeau_cpu)
  if(isa STREQUAL v3)
    precompile(flambeau_cpu_${isa} REUSE_FROM flambeau_cpu)
  else()
    precompile(flambeau_cpu_${isa} PRIVATE flambeau/cpu/kernels/elementwise/loops.h)
  endif()
  list(APPEND kernel_libraries flambeau_cpu_${isa})
endforeach()
foreach(isa IN ITEMS v3 v4)
  list(APPEND has_isa "FLAMBEAU_HAS_ISA_${isa}=$<IN_LIST:${isa},${FLAMBEAU_ISAS}>")
endforeach()
set_source_files_properties("${CMAKE_SOURCE_DIR}/flambeau/cpu/isa.cpp" PROPERTIES
  COMPILE_DEFINITIONS "${has_isa}" SKIP_PRECOMPILE_HEADERS ON)

# Where an installed library finds oneDNN (a package's data file: lib/ of the environment, or of
# the target of `pip install --target`) and OpenBLAS (inside its package).
set(library_destination flambeau)
set(package_rpath "$ORIGIN" "$ORIGIN/../../.." "$ORIGIN/../lib" "$ORIGIN/../scipy_openblas32/lib")
# A development build can be moved together with its environment: its paths are relative too.
set(build_rpath "$ORIGIN")
foreach(library IN ITEMS "${dnnl_library}" "${openblas_library}")
  get_filename_component(directory "${library}" DIRECTORY)
  file(RELATIVE_PATH relative "${FLAMBEAU_PACKAGE_DIR}" "${directory}")
  list(APPEND build_rpath "$ORIGIN/${relative}")
endforeach()
# `cmake --install` puts a C++ program's library into lib/, see cmake/install.cmake.
if(NOT SKBUILD)
  set(library_destination lib)
  set(package_rpath "$ORIGIN")
endif()
set_target_properties(flambeau ${kernel_libraries} PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${FLAMBEAU_PACKAGE_DIR}"
  BUILD_RPATH "${build_rpath}"
  INSTALL_RPATH "${package_rpath}")
# Touching a source of the library does not link the kernels again.
set_target_properties(${kernel_libraries} PROPERTIES LINK_DEPENDS_NO_SHARED ON)
install(TARGETS flambeau ${kernel_libraries} LIBRARY DESTINATION ${library_destination})
