# hurray_profile(NAME): profile-guided optimisation of a target, as HURRAY_PROFILE says. scripts/profile does the whole of it.
#
#   make  the programs write down, when they end, which code ran how often
#   use   they are compiled with what was written: what runs once a round lies together, what never ran is out of the way
#
# Both in one build folder, since gcc finds what it wrote by an object file's path.

set(HURRAY_PROFILE "" CACHE STRING "Profile-guided optimisation: make, use or nothing (gcc only; see scripts/profile)")
set_property(CACHE HURRAY_PROFILE PROPERTY STRINGS "" make use)
set(HURRAY_PROFILE_DIR "${PROJECT_BINARY_DIR}/profile")

if(HURRAY_PROFILE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(FATAL_ERROR "HURRAY_PROFILE=${HURRAY_PROFILE} needs gcc, and the compiler is ${CMAKE_CXX_COMPILER_ID}")
elseif(HURRAY_PROFILE STREQUAL "make")
  # Atomic where it can be: a client has threads.
  set(HURRAY_PROFILE_FLAGS -fprofile-generate -fprofile-update=prefer-atomic "-fprofile-dir=${HURRAY_PROFILE_DIR}")
elseif(HURRAY_PROFILE STREQUAL "use")
  if(NOT IS_DIRECTORY "${HURRAY_PROFILE_DIR}")
    message(FATAL_ERROR "HURRAY_PROFILE=use, and no program has left a profile in ${HURRAY_PROFILE_DIR}: see scripts/profile")
  endif()
  # Partial: what the training does not do is compiled as without it, not for size.
  # And what a profile has inlined makes gcc 12 see a copy beyond a vector's end that is none.
  set(HURRAY_PROFILE_FLAGS "-fprofile-use=${HURRAY_PROFILE_DIR}" -fprofile-partial-training -fprofile-correction
                           -Wno-missing-profile -Wno-stringop-overread)
elseif(HURRAY_PROFILE)
  message(FATAL_ERROR "HURRAY_PROFILE is make, use or nothing, not '${HURRAY_PROFILE}'")
else()
  set(HURRAY_PROFILE_FLAGS "")
endif()

function(hurray_profile name)
  target_compile_options(${name} PRIVATE ${HURRAY_PROFILE_FLAGS})
  target_link_options(${name} PRIVATE ${HURRAY_PROFILE_FLAGS})
endfunction()
