find_package(nlohmann_json REQUIRED)

hurray_test(client_test
  SOURCES client_test.cpp client_handover_test.cpp client_lifetime_test.cpp client_look_test.cpp
  LIBRARIES hurray_client hurray_test_support nlohmann_json::nlohmann_json)

hurray_test(client_concurrency_test
  SOURCES client_test.cpp client_concurrency_test.cpp
  LIBRARIES hurray_client hurray_test_support nlohmann_json::nlohmann_json
  LABELS concurrency)
