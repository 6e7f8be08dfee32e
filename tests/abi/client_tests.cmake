# Included by this folder's CMakeLists.txt: the client's two public headers, as programs outside see them.
add_executable(client_header_test "${CMAKE_CURRENT_LIST_DIR}/client_header_test.c")
hurray_target(client_header_test)
target_link_libraries(client_header_test PRIVATE hurray::client hurray::hurray)
add_test(NAME client_header_test COMMAND client_header_test)
set_tests_properties(client_header_test PROPERTIES TIMEOUT 60)

# One process with one daemon for all cases: hurray_test would start each case without one.
add_executable(client_hpp_test "${CMAKE_CURRENT_LIST_DIR}/client_hpp_test.cpp")
hurray_target(client_hpp_test)
target_link_libraries(client_hpp_test PRIVATE hurray::client hurray::hurray GTest::gtest GTest::gtest_main)
add_dependencies(client_hpp_test hurrayctl hurrayd)
add_test(NAME client_hpp_test COMMAND hurrayctl run -- $<TARGET_FILE:client_hpp_test>)
set_tests_properties(client_hpp_test PROPERTIES LABELS integration TIMEOUT 300)
