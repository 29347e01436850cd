# What C++ programs are given, in one layout everywhere: include/, share/cmake/, share/pkgconfig/, and
# libraries in lib/. A wheel has them inside the package, and a development build's package has links
# to the sources; there the libraries lie beside these folders.
set(package_root .)
set(package_libraries lib)
if(SKBUILD)
  set(package_root flambeau)
  set(package_libraries .)
endif()

install(DIRECTORY "${CMAKE_SOURCE_DIR}/flambeau" DESTINATION "${package_root}/include"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
  PATTERN "flambeau/cpu" EXCLUDE PATTERN "flambeau/cuda" EXCLUDE)
install(FILES "${torch_header}" DESTINATION "${package_root}/include/flambeau")
# What programs written for libtorch include, in a folder of its own.
install(DIRECTORY "${CMAKE_SOURCE_DIR}/compat/" DESTINATION "${package_root}/include/flambeau/compat"
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/python/extension/"
  DESTINATION "${package_root}/include/flambeau/python" FILES_MATCHING PATTERN "*.h")

include(CMakePackageConfigHelpers)
set(configured "${CMAKE_BINARY_DIR}/share")
write_basic_package_version_file("${configured}/FlambeauConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
# The version whose API this is: what find_package(Torch 2.1) asks for.
write_basic_package_version_file("${configured}/TorchConfigVersion.cmake"
  VERSION 2.15.0 COMPATIBILITY SameMajorVersion)
foreach(package IN ITEMS Flambeau Torch)
  install(FILES "${CMAKE_SOURCE_DIR}/cmake/${package}Config.cmake"
      "${configured}/${package}ConfigVersion.cmake"
    DESTINATION "${package_root}/share/cmake/${package}")
endforeach()
configure_file("${CMAKE_SOURCE_DIR}/cmake/flambeau.pc.in" "${configured}/flambeau.pc" @ONLY)
install(FILES "${configured}/flambeau.pc" DESTINATION "${package_root}/share/pkgconfig")

# The libraries of others that ours stand on, so that what is installed can be moved and packed.
if(NOT SKBUILD)
  foreach(library IN ITEMS "${dnnl_library}" "${openblas_library}")
    file(REAL_PATH "${library}" file)
    get_filename_component(name "${library}" NAME)
    install(PROGRAMS "${file}" DESTINATION lib RENAME "${name}")
  endforeach()
endif()

# The same in a development build.
if(NOT SKBUILD)
  set(links "${FLAMBEAU_PACKAGE_DIR}/include/flambeau")
  file(GLOB headers RELATIVE "${CMAKE_SOURCE_DIR}/flambeau" "${CMAKE_SOURCE_DIR}/flambeau/*")
  list(REMOVE_ITEM headers cpu cuda)
  foreach(name IN LISTS headers)
    file(CREATE_LINK "${CMAKE_SOURCE_DIR}/flambeau/${name}" "${links}/${name}" SYMBOLIC)
  endforeach()
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/compat" "${links}/compat" SYMBOLIC)
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/python/extension" "${links}/python" SYMBOLIC)
  foreach(package IN ITEMS Flambeau Torch)
    set(links "${FLAMBEAU_PACKAGE_DIR}/share/cmake/${package}")
    file(MAKE_DIRECTORY "${links}")
    file(CREATE_LINK "${CMAKE_SOURCE_DIR}/cmake/${package}Config.cmake"
      "${links}/${package}Config.cmake" SYMBOLIC)
    file(CREATE_LINK "${configured}/${package}ConfigVersion.cmake"
      "${links}/${package}ConfigVersion.cmake" SYMBOLIC)
  endforeach()
  set(package_libraries .)
  configure_file("${CMAKE_SOURCE_DIR}/cmake/flambeau.pc.in"
    "${FLAMBEAU_PACKAGE_DIR}/share/pkgconfig/flambeau.pc" @ONLY)
endif()

# `cpack` (`make archive`): the installed tree as an archive that can be unpacked anywhere.
if(NOT SKBUILD)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME "flambeau-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
  set(CPACK_STRIP_FILES ON)
  include(CPack)
endif()
