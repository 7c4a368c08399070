# One static library per folder of lib/. A target links only the layers below it, and a test
# (tests/layers_test.py) reads the includes, so that a forbidden include fails twice.
#
#   hetsgd_layer(data LINKS hetsgd_linalg PRIVATE_LINKS PkgConfig::ZSTD)
#
# takes every .cpp of the folder (sub-folders included). REGISTERS: algorithms and clusters register themselves in files
# that nothing refers to, so who links such a layer gets its archive whole.
function(hetsgd_layer name)
  cmake_parse_arguments(ARG "REGISTERS" "" "LINKS;PRIVATE_LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
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

# hetsgd_test(data/reader LINKS hetsgd_data): tests/data/reader_test.cpp, a GoogleTest program.
function(hetsgd_test path)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINKS;LABELS" ${ARGN})
  string(REPLACE "/" "_" target ${path})
  add_executable(${target}_test ${CMAKE_SOURCE_DIR}/tests/${path}_test.cpp)
  target_link_libraries(${target}_test PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${target}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
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
