# Compiler and linker settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Checks in the C++ tests want assertions in the development build; -g1 keeps line
# numbers in stack traces at a tenth of the size of full debug information.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

# Warnings are for those who change the code; a release is built without looking for them.
set(warns "$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Release>>>")
add_compile_options("$<${warns}:-Wall;-Wextra;-Wno-unknown-pragmas>")
if(FLAMBEAU_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()

# No path of the building machine ends up in an error message or a debug section.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

# Symbols have default visibility, so these keep calls inside one library direct. Thread-local
# variables are few and small (keep big ones behind a pointer): the initial-exec model reads them
# with one instruction instead of a call.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition;-fvisibility-inlines-hidden;-ftls-model=initial-exec>")
# Where the compiler brings its runtime as an archive, a library must not offer the copy it took to
# others: cuDNN would mix it with its own.
add_link_options(-Wl,-Bsymbolic-functions -Wl,-z,defs -Wl,--exclude-libs,ALL)

if(FLAMBEAU_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FLAMBEAU_SANITIZE};-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${FLAMBEAU_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths in the hash let all checkouts of this repository share one cache.
  set(launcher env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

# Headers of ours that most units of a target include are read once. Not with a compiler cache, to
# which a precompiled header of another checkout is another header.
function(precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    list(TRANSFORM ARGN REPLACE "(.+[.]h)" "${CMAKE_SOURCE_DIR}/\\1")
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()

# Compiles the units below a folder with few optimizations, but for those named.
function(compile_lightly folder)
  list(TRANSFORM ARGN REPLACE "(.+)" "${folder}/\\1.cpp")
  file(GLOB_RECURSE light CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(REMOVE_ITEM light ${ARGN})
  set_source_files_properties(${light} PROPERTIES COMPILE_OPTIONS "-O1;-finline-small-functions")
endfunction()

find_program(MOLD mold)
if(FLAMBEAU_FAST_LINK AND MOLD)
  add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>")
endif()
