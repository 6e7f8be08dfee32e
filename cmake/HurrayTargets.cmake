# hurray_target(NAME): the flags that every target of our own code has.
#
# Generated code gets hurray_sanitize() alone: warnings there are nobody's to mend.

function(hurray_sanitize name)
  if(HURRAY_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${HURRAY_SANITIZE} -fno-sanitize-recover=all
                                           -fno-omit-frame-pointer)
    target_link_options(${name} PRIVATE -fsanitize=${HURRAY_SANITIZE})
    if(HURRAY_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Asio has a fence, which the thread sanitizer does not understand. Only the daemon's one thread passes it.
      target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
    endif()
  endif()
  if(HURRAY_BUILD_FUZZERS) # so that the fuzzer sees which branches the libraries take
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

function(hurray_target name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wconversion)
  if(HURRAY_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc's documentation warns of false alarms with sanitizers, and of -Werror beside them: 12 has one in std::regex, 14 in
    # std::copy of a byte. The same code is compiled without sanitizers too.
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
  elseif(HURRAY_WARNINGS_AS_ERRORS)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  hurray_sanitize(${name})
  hurray_profile(${name})
endfunction()

# hurray_test(NAME SOURCES ... LIBRARIES ... [LABELS ...] [ROOT ...] [ALONE ...]): a GoogleTest program, one ctest entry a test case.
# ROOT names the cases that need root; they get the label "root" too, and skip themselves otherwise. ALONE names those beside which no
# other test runs, since they use up what all processes of a user share.
function(hurray_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS;ROOT;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  hurray_target(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  # gtest_discover_tests takes a list of labels apart on its way, so they are set when ctest knows the tests.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_file}" "foreach(test IN LISTS ${name}_TESTS)
  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${ARG_LABELS}\")
endforeach()
")
  foreach(test IN LISTS ARG_ROOT)
    file(APPEND "${labels_file}" "set_tests_properties(\"${test}\" PROPERTIES LABELS \"${ARG_LABELS};root\")\n")
  endforeach()
  foreach(test IN LISTS ARG_ALONE)
    file(APPEND "${labels_file}" "set_tests_properties(\"${test}\" PROPERTIES RUN_SERIAL TRUE)\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  if("concurrency" IN_LIST ARG_LABELS) # all that the thread sanitizer's build has to build
    if(NOT TARGET concurrency_tests)
      add_custom_target(concurrency_tests)
    endif()
    add_dependencies(concurrency_tests ${name})
  endif()
endfunction()
