# What makes work in the build tree pleasant and changes nothing of what is built.

# ccache. Paths below the source folder count as relative and the working folder not at all, so that one cache serves
# every checkout of the project; the sloppiness is what precompiled headers need.
if(HURRAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HURRAY_CCACHE_PROGRAM ccache)
  mark_as_advanced(HURRAY_CCACHE_PROGRAM)
  if(HURRAY_CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=true
        "CCACHE_SLOPPINESS=pch_defines,time_macros" "${HURRAY_CCACHE_PROGRAM}")
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  endif()
endif()

# Editors look for compile_commands.json in the source folder. The first preset that is configured serves them; a link
# whose build folder has gone is replaced.
if(PROJECT_IS_TOP_LEVEL AND NOT EXISTS "${PROJECT_SOURCE_DIR}/compile_commands.json")
  file(CREATE_LINK "${PROJECT_BINARY_DIR}/compile_commands.json" "${PROJECT_SOURCE_DIR}/compile_commands.json"
       RESULT ignored SYMBOLIC)
endif()
