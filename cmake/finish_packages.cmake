# cpack runs this on the packages that it has made. For a library it makes scripts that call ldconfig themselves; Debian's way
# is the trigger, which is in the package, and runs ldconfig once for all that is installed together.
find_program(dpkg_deb dpkg-deb REQUIRED)
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(NOT package MATCHES "/libhurray(-client)?[0-9]+_[^/]*\\.deb$")
    continue()
  endif()
  set(unpacked "${CPACK_TEMPORARY_DIRECTORY}/finish")
  file(REMOVE_RECURSE "${unpacked}")
  execute_process(COMMAND "${dpkg_deb}" --raw-extract "${package}" "${unpacked}" COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE "${unpacked}/DEBIAN/postinst" "${unpacked}/DEBIAN/postrm")
  execute_process(COMMAND "${dpkg_deb}" --root-owner-group --build "${unpacked}" "${package}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()
