# `cpack -G DEB` makes Debian packages, one for each component that is installed. Any build tree will do; the preset `package`
# is what they should be built with (hardened, and with the multiarch folder that goes with the prefix /usr).
#
# The scripts that dpkg runs, the changelog and the copyright are in packaging/debian.

set(debian "${PROJECT_SOURCE_DIR}/packaging/debian")
set(made "${PROJECT_BINARY_DIR}/package/debian")
set(HURRAY_PACKAGE_MAINTAINER "The Hurray maintainers <maintainers@hurray.invalid>" CACHE STRING
    "Who answers for the packages: NAME <ADDRESS>")

set(CPACK_PACKAGE_NAME hurray)
set(CPACK_PACKAGE_VENDOR "The Hurray maintainers")
set(CPACK_PACKAGE_CONTACT "${HURRAY_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each has its own
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Installed as into /usr, whatever the tree's own prefix is.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/prepare_packages.cmake")
set(CPACK_POST_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/finish_packages.cmake")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")

# What each package has to say of its licence, from the licence itself: a line begins with a space, an empty one is a dot.
file(STRINGS "${PROJECT_SOURCE_DIR}/LICENSE-MIT" HURRAY_COPYRIGHT REGEX "^Copyright")
string(REGEX REPLACE "^Copyright \\(c\\) " "" HURRAY_COPYRIGHT "${HURRAY_COPYRIGHT}")
file(READ "${PROJECT_SOURCE_DIR}/LICENSE-MIT" HURRAY_MIT_TEXT)
string(REGEX REPLACE "^.*(Permission is)" "\\1" HURRAY_MIT_TEXT "${HURRAY_MIT_TEXT}")
string(STRIP "${HURRAY_MIT_TEXT}" HURRAY_MIT_TEXT)
string(REPLACE "\n\n" "\n.\n" HURRAY_MIT_TEXT "${HURRAY_MIT_TEXT}")
string(REPLACE "\n" "\n " HURRAY_MIT_TEXT " ${HURRAY_MIT_TEXT}")
configure_file("${debian}/copyright.in" "${made}/copyright" @ONLY)

set(CPACK_COMPONENTS_ALL "")
set(this_version "(= ${PROJECT_VERSION})")

# hurray_package(COMPONENT NAME SECTION SUMMARY DESCRIPTION [FIELD VALUE]... [SCRIPTS FILE...])
# Fields are CPack's; SCRIPTS are files for dpkg, by the names that it gives them. Lines of the description: at most 79 columns.
macro(hurray_package component name section summary description)
  cmake_parse_arguments(package "" "DEPENDS;RECOMMENDS;SUGGESTS" "SCRIPTS" ${ARGN})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${about}\n${description}")
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    if(package_${field})
      set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${package_${field}}")
    endif()
  endforeach()
  if(package_SCRIPTS)
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${package_SCRIPTS}")
  endif()
  install(FILES "${debian}/changelog" "${made}/copyright" DESTINATION "share/doc/${name}" COMPONENT ${component}
    EXCLUDE_FROM_ALL)
endmacro()

# hurray_library_package(COMPONENT LIBRARY SOVERSION ...): of a shared library, with what dpkg-shlibdeps and ldconfig are told.
macro(hurray_library_package component library soversion)
  set(name "${library}${soversion}")
  file(WRITE "${made}/${name}/shlibs" "${library} ${soversion} ${name} (>= ${PROJECT_VERSION})\n")
  file(WRITE "${made}/${name}/triggers" "activate-noawait ldconfig\n")
  hurray_package(${component} ${name} libs ${ARGN}
    SCRIPTS "${made}/${name}/shlibs" "${made}/${name}/triggers")
endmacro()

set(about "Hurray lets the processes of one host share tensors without copying them: one
publishes, others attach by name and read the very same memory.
")
hurray_library_package(libhurray libhurray 2
  "tensors shared between processes, descriptors"
  "This package has the library that reads and writes the descriptors of tensors.")
if(HURRAY_BUILD_CLIENT)
  hurray_library_package(libhurray-client libhurray-client 0
    "tensors shared between processes, client"
    "This package has the library with which programs publish and attach."
    DEPENDS "libhurray2 ${this_version}")
  set(client_for_development ", libhurray-client0 ${this_version}")
  hurray_package(tools hurrayctl utils
    "tensors shared between processes, command line"
    "This package has the command that shows what is shared, and that runs programs
with a broker of their own."
    DEPENDS "libhurray-client0 ${this_version}"
    RECOMMENDS "hurrayd ${this_version}")
endif()
hurray_package(development libhurray-dev libdevel
  "tensors shared between processes, headers"
  "This package has what is needed to write programs in C and C++."
  DEPENDS "libhurray2 ${this_version}${client_for_development}")
if(HURRAY_BUILD_DAEMON)
  set(scripts "${debian}/hurrayd")
  hurray_package(daemon hurrayd utils
    "tensors shared between processes, broker"
    "This package has the daemon that introduces the programs to each other, and
runs it as a service of the host."
    DEPENDS "init-system-helpers (>= 1.54), systemd | systemd-standalone-sysusers | systemd-sysusers, \
systemd | systemd-standalone-tmpfiles | systemd-tmpfiles"
    RECOMMENDS "hurrayctl ${this_version}"
    SCRIPTS "${scripts}/postinst" "${scripts}/prerm" "${scripts}/postrm")
endif()
if(HURRAY_BUILD_PYTHON)
  get_property(python_depends GLOBAL PROPERTY HURRAY_PYTHON_DEPENDS)
  set(scripts "${debian}/python3-hurray")
  configure_file("${scripts}/METADATA.in" "${made}/METADATA" @ONLY)
  install(FILES "${made}/METADATA" DESTINATION "${HURRAY_PYTHON_DIR}/hurray-${PROJECT_VERSION}.dist-info"
    COMPONENT python EXCLUDE_FROM_ALL)
  hurray_package(python python3-hurray python
    "tensors shared between processes, Python"
    "This package has the Python module, which gives and takes NumPy arrays."
    DEPENDS "${python_depends}, python3-numpy, libhurray-client0 ${this_version}"
    SUGGESTS "hurrayd"
    SCRIPTS "${scripts}/postinst" "${scripts}/prerm")
endif()

include(CPack)
