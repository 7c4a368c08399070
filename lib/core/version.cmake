# hetsgd_version: see version.hpp. Everything but the revision is known when CMake configures.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" HETSGD_SHOWN_FLAGS)

# -march=native says nothing to a reader of a result: name the processor that the compiler took it for.
set(HETSGD_SHOWN_MARCH "${HETSGD_TARGET_MARCH}")
if(HETSGD_KERNEL_SETS)
  list(JOIN HETSGD_KERNEL_SETS " " sets)
  set(HETSGD_SHOWN_MARCH "${HETSGD_TARGET_MARCH}, kernels ${sets}")
elseif(HETSGD_TARGET_MARCH STREQUAL "native" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -Q --help=target
                  OUTPUT_VARIABLE target_help ERROR_QUIET)
  if(target_help MATCHES "-march=[ \t]+([a-z0-9-]+)")
    set(HETSGD_SHOWN_MARCH "native (${CMAKE_MATCH_1})")
  endif()
endif()

set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${generated}/core/version.cpp @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_stamp.hpp.in ${generated}/core/build_stamp.hpp @ONLY)
add_custom_target(hetsgd_revision
                  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}
                          -DOUTPUT=${generated}/core/revision.hpp
                          -P ${CMAKE_CURRENT_LIST_DIR}/revision.cmake
                  BYPRODUCTS ${generated}/core/revision.hpp
                  COMMENT "" VERBATIM)
add_library(hetsgd_version STATIC ${generated}/core/version.cpp)
add_dependencies(hetsgd_version hetsgd_revision)
target_include_directories(hetsgd_version PRIVATE ${generated})
target_link_libraries(hetsgd_version PUBLIC hetsgd_core)
