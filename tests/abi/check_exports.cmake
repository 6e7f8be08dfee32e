# Fails unless the dynamic symbols that LIBRARY defines are exactly the functions that HEADER declares with HURRAY_API.
#
# cmake -DNM=nm -DLIBRARY=libhurray.so -DHEADER=hurray.h -P check_exports.cmake

execute_process(COMMAND "${NM}" -D --defined-only "${LIBRARY}"
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
set(exported)
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^.* " "" name "${line}")
  list(APPEND exported "${name}")
endforeach()

file(READ "${HEADER}" text)
string(REGEX MATCHALL "HURRAY_API [^(]*[ *](hurray_[a-z0-9_]+)\\(" declarations "${text}")
set(declared)
foreach(declaration IN LISTS declarations)
  string(REGEX REPLACE ".*[ *](hurray_[a-z0-9_]+)\\($" "\\1" name "${declaration}")
  list(APPEND declared "${name}")
endforeach()

list(LENGTH declared count)
if(count LESS 30)
  message(FATAL_ERROR "only ${count} declarations found in ${HEADER}")
endif()
list(SORT exported)
list(SORT declared)
if(NOT exported STREQUAL declared)
  set(surplus ${exported})
  list(REMOVE_ITEM surplus ${declared})
  set(missing ${declared})
  list(REMOVE_ITEM missing ${exported})
  message(FATAL_ERROR "exported but not declared: ${surplus}\ndeclared but not exported: ${missing}")
endif()
