# One static library per folder of lib/. A target links only the layers below it, and a test
# (tests/layers_test.py) reads the includes, so that a forbidden include fails twice.
#
#   hetsgd_layer(data LINKS hetsgd_linalg PRIVATE_LINKS PkgConfig::ZSTD)
#
# takes every .cpp of the folder, sub-folders included but for WITHOUT. REGISTERS: models, algorithms,
# clusters and kernel families register themselves in files that nothing refers to, so who links such a layer gets its
# archive whole. SEPARATE: each file is compiled alone, but for sanitizers.
function(hetsgd_layer name)
  cmake_parse_arguments(ARG "REGISTERS;SEPARATE" "WITHOUT" "LINKS;PRIVATE_LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(ARG_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ARG_WITHOUT}/")
  endif()
  if(NOT sources)
    add_library(hetsgd_${name} INTERFACE)
    target_link_libraries(hetsgd_${name} INTERFACE hetsgd_flags ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
    return()
  endif()
  if(HETSGD_LAYERS_FROM AND NOT name MATCHES "^(linalg|cluster)$")
    hetsgd_layer_of_another_build(hetsgd_${name} ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
  else()
    add_library(hetsgd_${name} STATIC ${sources})
    target_link_libraries(hetsgd_${name} PUBLIC hetsgd_flags ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
    if(NOT name MATCHES "^(core|data|linalg)$")
      target_link_libraries(hetsgd_${name} PRIVATE hetsgd_fewer_checks)
    endif()
    if(NOT ARG_SEPARATE OR HETSGD_SANITIZE)
      hetsgd_unity(hetsgd_${name})
    endif()
    if(name MATCHES "^(graph|training)$")
      hetsgd_cold(hetsgd_${name} -O2)
    elseif(name MATCHES "^(result|experiment)$")
      hetsgd_cold(hetsgd_${name} -O1)
    endif()
  endif()
  if(ARG_REGISTERS)
    target_link_options(hetsgd_${name} INTERFACE
      "SHELL:-Wl,--whole-archive $<TARGET_FILE:hetsgd_${name}> -Wl,--no-whole-archive")
  endif()
endfunction()

# The kernels of linalg/cpu, added to hetsgd_linalg, which does not have these files. A set is compiled for its
# processors and linked to one object, with all symbols local but its table: the sets define the same names, and the
# linker must not take one's copy of an inline function for the whole program. Constructors of objects at namespace scope
# go to a section of their own, so that they run when the set is chosen, not when the program starts.
# Tests that call kernels without a device link hetsgd_tested_kernels, the files of one set as they are.
function(hetsgd_kernel_sets)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/linalg/cpu/*.cpp)
  foreach(set IN LISTS HETSGD_KERNEL_SETS)
    set(name hetsgd_cpu_${set})
    set(constructors ${name}_constructors)
    set(HETSGD_TARGET_MARCH x86-64-${set})
    add_library(${name} OBJECT ${sources})
    target_link_libraries(${name} PRIVATE hetsgd_flags hetsgd_core)
    target_compile_options(${name} PRIVATE -fno-gnu-unique)
    target_compile_definitions(${name} PRIVATE HETSGD_TABLE=${name} HETSGD_CONSTRUCTORS=__start_${constructors}
                               HETSGD_CONSTRUCTORS_END=__stop_${constructors})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${object} $<TARGET_OBJECTS:${name}>
      COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${name} --rename-section .init_array=${constructors} ${object}
      DEPENDS $<TARGET_OBJECTS:${name}> COMMENT "Linking kernels ${set}" COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(hetsgd_linalg PRIVATE ${object})
  endforeach()
  target_compile_definitions(hetsgd_linalg PRIVATE HETSGD_KERNEL_SETS)
  add_library(hetsgd_tested_kernels STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hetsgd_cpu_${HETSGD_TESTED_SET}>)
  set_target_properties(hetsgd_tested_kernels PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# With HETSGD_LAYERS_FROM, the folder of another build of these sources, the layers without code of GPUs are taken from
# there, and brought up to date there first: an emulated build (HETSGD_CUDA) then compiles linalg and cluster alone.
function(hetsgd_layer_of_another_build target)
  set(archive ${HETSGD_LAYERS_FROM}/lib/lib${target}.a)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archive})
  target_link_libraries(${target} INTERFACE hetsgd_flags ${ARGN})
  set_property(GLOBAL APPEND PROPERTY HETSGD_TAKEN_LAYERS ${target})
  set_property(GLOBAL APPEND PROPERTY HETSGD_TAKEN_ARCHIVES ${archive})
endfunction()

# Generated sources of a layer; one of another build has them.
function(hetsgd_sources target)
  get_target_property(imported ${target} IMPORTED)
  if(NOT imported)
    target_sources(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# After the last layer: how those of another build come to be.
function(hetsgd_build_taken_layers)
  get_property(layers GLOBAL PROPERTY HETSGD_TAKEN_LAYERS)
  get_property(archives GLOBAL PROPERTY HETSGD_TAKEN_ARCHIVES)
  if(layers)
    add_custom_target(hetsgd_taken_layers
                      COMMAND ${CMAKE_COMMAND} --build ${HETSGD_LAYERS_FROM} --target ${layers}
                      BYPRODUCTS ${archives}
                      COMMENT "Layers of ${HETSGD_LAYERS_FROM}" VERBATIM)
    foreach(layer IN LISTS layers)
      add_dependencies(${layer} hetsgd_taken_layers)
    endforeach()
  endif()
endfunction()

# With HETSGD_UNITY several files of a target are compiled as one, which takes less than half of the time of a build
# from scratch: most of a file's time is the headers of fmt, nlohmann/json and the standard library. It is the
# reason why names at namespace scope differ between the files of a folder. The default build compiles each
# file alone, so that each has to include what it uses. On few cores a whole folder is one unit, which takes the least
# processor time; on many the longest unit would be what all wait for.
cmake_host_system_information(RESULT hetsgd_cores QUERY NUMBER_OF_LOGICAL_CORES)
if(hetsgd_cores LESS_EQUAL 4)
  set(HETSGD_UNITY_FILES 64)
else()
  set(HETSGD_UNITY_FILES 12)
endif()
function(hetsgd_unity target)
  if(HETSGD_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HETSGD_UNITY_FILES})
    # A class in a source file may well have members of a type that only this file knows.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>>)
  endif()
endfunction()

# UBSan without the checks that stand before each access through a pointer, which are a third of the compile time.
# AddressSanitizer sees the accesses. Only the layers that read raw bytes and vectors have these checks, too: core, data
# and linalg. To be linked last: -fsanitize goes first.
add_library(hetsgd_fewer_checks INTERFACE)
if(HETSGD_SANITIZE MATCHES "undefined")
  target_compile_options(hetsgd_fewer_checks INTERFACE -fno-sanitize=null,alignment,vptr)
endif()

# Code of JSON and options runs once per run or step, and its templates take half of the build: it is compiled with the
# given options, with a sanitizer without optimisation. Called after what the target links is known.
function(hetsgd_cold target)
  if(HETSGD_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    target_link_libraries(${target} PRIVATE hetsgd_fewer_checks)
  else()
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${ARGN}>)
  endif()
endfunction()

# The code under test keeps its optimisation; the tests themselves are compiled once and run once.
if(HETSGD_SANITIZE)
  set(HETSGD_TEST_OPTIMISATION -O0)
else()
  set(HETSGD_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)
endif()

# The headers that every test has, parsed once for all of them.
if(HETSGD_TESTS)
  file(WRITE ${CMAKE_BINARY_DIR}/test_prefix.cpp "")
  add_library(hetsgd_test_prefix OBJECT ${CMAKE_BINARY_DIR}/test_prefix.cpp)
  set_target_properties(hetsgd_test_prefix PROPERTIES TARGET_MARCH "${HETSGD_TESTS_MARCH}")
  target_link_libraries(hetsgd_test_prefix PRIVATE hetsgd_flags fmt::fmt nlohmann_json::nlohmann_json
                        GTest::gtest GTest::gmock hetsgd_fewer_checks)
  # Compiled as the tests are: of an executable, not of a library.
  set_target_properties(hetsgd_test_prefix PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(hetsgd_test_prefix PRIVATE -fPIE ${HETSGD_TEST_OPTIMISATION})
  target_precompile_headers(hetsgd_test_prefix PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/prefix.hpp)
endif()

# The settings of every GoogleTest program.
function(hetsgd_test_program target)
  target_link_libraries(${target} PRIVATE ${ARGN} GTest::gtest GTest::gmock GTest::gtest_main hetsgd_fewer_checks)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(${target} PRIVATE ${HETSGD_TEST_OPTIMISATION})
  set_target_properties(${target} PROPERTIES TARGET_MARCH "${HETSGD_TESTS_MARCH}")
  target_precompile_headers(${target} REUSE_FROM hetsgd_test_prefix)
endfunction()

# The cuDNN of tests (tests/support/cudnn.hpp).
set(HETSGD_TEST_CUDNN libcudnn.so.9)
if(HETSGD_CUDA STREQUAL "EMULATED")
  set(HETSGD_TEST_CUDNN ${CMAKE_BINARY_DIR}/tests/cuda_emulation/cudnn/libcudnn.so.9)
endif()

# The ctest entry of tests/PATH_test.cpp.
function(hetsgd_add_test path)
  cmake_parse_arguments(ARG "" "" "COMMAND" ${ARGN})
  add_test(NAME ${path} COMMAND ${ARG_COMMAND})
  set_tests_properties(${path} PROPERTIES SKIP_RETURN_CODE 77)
  # The longest first, so that no core is idle at the end. From the second run on ctest knows by itself.
  if(path MATCHES "^(algorithm/(adasum|deadlock|sma|threads_[0-9])|training/cuda)$")
    set_tests_properties(${path} PROPERTIES COST 50)
  endif()
endfunction()

# hetsgd_tests(data LINKS hetsgd_data DEFINITIONS X="y"): every tests/data/*_test.cpp, called in that
# folder. Each file is an entry of ctest, data/reader for reader_test.cpp. By default each is a
# program too, data_reader_test: quick to build again. With HETSGD_UNITY the folder is one program,
# data_tests, of a few translation units, and its tests of GPUs (cuda_*_test.cpp) another, data_cuda_tests. A file with a
# main() of its own stays a program, and so does each file but those of GPUs where GPUs are emulated: only some are
# built there. The target test_data builds them all. THREADS: ThreadSanitizer gets only files with tests of such names.
function(hetsgd_tests folder)
  cmake_parse_arguments(ARG "" "THREADS" "LINKS;DEFINITIONS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  add_custom_target(test_${folder})
  foreach(source IN LISTS sources)
    if(ARG_THREADS AND HETSGD_SANITIZE MATCHES "thread")
      file(STRINGS ${source} of_threads REGEX "^TEST.*(${ARG_THREADS})")
      if(NOT of_threads)
        continue()
      endif()
    endif()
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    string(REGEX MATCH "^cuda" needs_gpu "${name}")
    if(needs_gpu AND NOT HETSGD_CUDA_VERSION)
      continue()  # it would only be skipped
    endif()
    hetsgd_program_of_test(${folder} ${name} target)
    if(NOT TARGET ${target})
      add_executable(${target})
      hetsgd_test_program(${target} ${ARG_LINKS})
      target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
      if(needs_gpu)
        target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/gpu_main.cpp)
      endif()
      if(target MATCHES "_tests$")
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
      endif()
    endif()
    target_sources(${target} PRIVATE ${source})
    add_dependencies(test_${folder} ${target})
    if(needs_gpu)
      add_dependencies(gpu_tests ${target})
    endif()
    hetsgd_command_of_test(${folder} ${name} command)
    hetsgd_add_test(${folder}/${name} COMMAND ${command})
  endforeach()
endfunction()

# hetsgd_program_of_test(data reader VARIABLE): the program that has tests/data/reader_test.cpp, called in that folder.
function(hetsgd_program_of_test folder name result)
  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp own_main REGEX "^int main\\(")
  if(HETSGD_UNITY AND name MATCHES "^cuda")
    set(${result} ${folder}_cuda_tests PARENT_SCOPE)
  elseif(HETSGD_UNITY AND NOT own_main AND NOT HETSGD_CUDA STREQUAL "EMULATED")
    set(${result} ${folder}_tests PARENT_SCOPE)
  else()
    set(${result} ${folder}_${name}_test PARENT_SCOPE)
  endif()
endfunction()

# hetsgd_command_of_test(data reader VARIABLE): the program, and the filter for this file's tests where it has others.
function(hetsgd_command_of_test folder name result)
  hetsgd_program_of_test(${folder} ${name} command)
  if(command MATCHES "_tests$")
    hetsgd_suites(${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp filter)
    list(APPEND command --gtest_filter=${filter})
  endif()
  set(${result} ${command} PARENT_SCOPE)
endfunction()

# The GoogleTest filter that takes the suites of `source`, parametrised and typed ones included.
function(hetsgd_suites source result)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} lines REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
  set(filter)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" suite "${line}")
    list(APPEND filter "${suite}.*" "*/${suite}.*" "${suite}/*" "*/${suite}/*")
  endforeach()
  list(REMOVE_DUPLICATES filter)
  list(JOIN filter ":" filter)
  set(${result} "${filter}" PARENT_SCOPE)
endfunction()
