# Included by this folder's CMakeLists.txt: hurrayctl against a real daemon.
find_package(nlohmann_json REQUIRED)
hurray_test(hurrayctl_test
  SOURCES "${CMAKE_CURRENT_LIST_DIR}/hurrayctl_test.cpp"
  LIBRARIES hurray::client hurray::hurray nlohmann_json::nlohmann_json
  LABELS integration)
target_compile_definitions(hurrayctl_test PRIVATE HURRAY_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
add_dependencies(hurrayctl_test hurrayctl hurrayd)
