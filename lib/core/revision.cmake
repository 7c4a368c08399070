# Runs at every build: writes OUTPUT from the git state of SOURCE, and touches it only when that has changed.
set(revision "unknown")
set(dirty "false")
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
      set(dirty "true")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Written at build time by core/revision.cmake.
#pragma once
namespace hetsgd {
inline constexpr const char* kRevision = "@revision@";
inline constexpr bool kDirty = @dirty@;
}  // namespace hetsgd
]])
