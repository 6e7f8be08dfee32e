# Included by this folder's CMakeLists.txt: hurrayd against peers that speak the protocol by hand.
hurray_test(daemon_integration_test
  SOURCES
    "${CMAKE_CURRENT_LIST_DIR}/daemon_architecture_test.cpp"
    "${CMAKE_CURRENT_LIST_DIR}/daemon_capsule_test.cpp"
    "${CMAKE_CURRENT_LIST_DIR}/daemon_hostile_peer_test.cpp"
    "${CMAKE_CURRENT_LIST_DIR}/daemon_list_watch_test.cpp"
    "${CMAKE_CURRENT_LIST_DIR}/daemon_process_test.cpp"
  LIBRARIES hurray_test_support
  LABELS integration)
target_compile_definitions(daemon_integration_test PRIVATE
  HURRAYD_CORE_ARCHIVE="$<TARGET_FILE:hurrayd_core>"
  HURRAYD_BINARY="$<TARGET_FILE:hurrayd>"
  HURRAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
