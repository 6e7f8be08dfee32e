# The package configuration for find_package(hurray) and pkg-config; each target installs itself in its own folder, into
# the export set hurrayTargets. Everything is relative to the folder it is installed in, so a prefix can be moved.

set(HURRAY_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/hurray")

install(EXPORT hurrayTargets NAMESPACE hurray:: DESTINATION "${HURRAY_CMAKE_DIR}" COMPONENT development)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/hurrayConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/hurrayConfig.cmake" INSTALL_DESTINATION "${HURRAY_CMAKE_DIR}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/hurrayConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/hurrayConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/hurrayConfigVersion.cmake"
  DESTINATION "${HURRAY_CMAKE_DIR}" COMPONENT development)

# pkg-config finds the prefix from where the .pc file lies.
file(RELATIVE_PATH HURRAY_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
string(REGEX REPLACE "/$" "" HURRAY_PC_PREFIX "${HURRAY_PC_PREFIX}")

set(HURRAY_PC_FILES hurray)
if(HURRAY_BUILD_CLIENT)
  list(APPEND HURRAY_PC_FILES hurray-client)
endif()
foreach(name IN LISTS HURRAY_PC_FILES)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/package/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
endforeach()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE-MIT" "${PROJECT_SOURCE_DIR}/LICENSE-APACHE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT licences)
