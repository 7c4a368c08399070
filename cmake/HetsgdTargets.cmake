# One static library per folder of lib/. A target links only the layers below it, and a test
# (tests/layers_test.py) reads the includes, so that a forbidden include fails twice.
#
#   hetsgd_layer(data LINKS hetsgd_linalg PRIVATE_LINKS PkgConfig::ZSTD)
#
# takes every .cpp of the folder, sub-folders included but for WITHOUT. REGISTERS: algorithms and clusters register
# themselves in files that nothing refers to, so who links such a layer gets its archive whole.
function(hetsgd_layer name)
  cmake_parse_arguments(ARG "REGISTERS" "WITHOUT" "LINKS;PRIVATE_LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(ARG_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ARG_WITHOUT}/")
  endif()
  if(NOT sources)
    add_library(hetsgd_${name} INTERFACE)
    target_link_libraries(hetsgd_${name} INTERFACE hetsgd_flags ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
    return()
  endif()
  add_library(hetsgd_${name} STATIC ${sources})
  target_link_libraries(hetsgd_${name} PUBLIC hetsgd_flags ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(ARG_REGISTERS)
    target_link_options(hetsgd_${name} INTERFACE
      "SHELL:-Wl,--whole-archive $<TARGET_FILE:hetsgd_${name}> -Wl,--no-whole-archive")
  endif()
endfunction()

# GCC 12 warns of overlaps inside std::string's own operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(HETSGD_FALSE_WARNINGS -Wno-restrict -Wno-array-bounds)
endif()

# The headers that nearly every test includes, parsed once for all of them.
if(HETSGD_TESTS)
  file(WRITE ${CMAKE_BINARY_DIR}/test_prefix.cpp "")
  add_library(hetsgd_test_prefix OBJECT ${CMAKE_BINARY_DIR}/test_prefix.cpp)
  target_link_libraries(hetsgd_test_prefix PRIVATE hetsgd_flags fmt::fmt nlohmann_json::nlohmann_json
                        GTest::gtest GTest::gmock)
  # Compiled as the tests are: of an executable, not of a library.
  set_target_properties(hetsgd_test_prefix PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(hetsgd_test_prefix PRIVATE -fPIE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(hetsgd_test_prefix PRIVATE <gmock/gmock.h> <gtest/gtest.h>
    <fmt/format.h> <nlohmann/json.hpp> <algorithm> <functional> <map> <memory> <string> <vector>)
endif()

# hetsgd_test(data/reader LINKS hetsgd_data): tests/data/reader_test.cpp, a GoogleTest program.
function(hetsgd_test path)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINKS;LABELS" ${ARGN})
  string(REPLACE "/" "_" target ${path})
  add_executable(${target}_test ${CMAKE_SOURCE_DIR}/tests/${path}_test.cpp)
  target_link_libraries(${target}_test PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${target}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  # What is tested keeps its optimisation; the tests themselves are compiled once and run once.
  target_compile_options(${target}_test PRIVATE $<$<CONFIG:Release>:-O1> ${HETSGD_FALSE_WARNINGS})
  target_precompile_headers(${target}_test REUSE_FROM hetsgd_test_prefix)
  add_test(NAME ${path} COMMAND ${target}_test)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(HETSGD_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # ThreadSanitizer is ten times slower
  endif()
  set_tests_properties(${path} PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
                       LABELS "${ARG_LABELS}")
endfunction()
