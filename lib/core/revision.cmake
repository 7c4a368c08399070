# Runs at every build: writes OUTPUT from the git state and the headers of SOURCE, and touches it only when they have
# changed.
set(revision "unknown")
set(changed "")
find_program(git NAMES git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(NOT failed)
    set(revision "${found}")
    execute_process(COMMAND ${git} -C ${SOURCE} --no-optional-locks status --porcelain
                            --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT changes STREQUAL "")
      set(changed " with local changes")
    endif()
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)
hetsgd_hash_headers(${SOURCE}/lib headers)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Written at build time by core/revision.cmake.
#pragma once
#define HETSGD_REVISION "@revision@"
#define HETSGD_CHANGES "@changed@"  // " with local changes", or nothing
#define HETSGD_HEADERS "@headers@"  // hash of all headers of lib/
]])
