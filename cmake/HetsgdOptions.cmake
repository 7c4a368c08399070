option(HETSGD_TESTS "Build the tests" ON)
option(HETSGD_UNITY "Few large translation units, for builds from scratch (hetsgd_unity in cmake/HetsgdTargets.cmake)" OFF)
option(HETSGD_BENCHMARKS "Build the Google Benchmark programs" ON)
option(HETSGD_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
set(HETSGD_CUDA "ON" CACHE STRING "ON: CUDA devices when the toolkit is found; OFF; EMULATED: on the CPU, for tests")
set_property(CACHE HETSGD_CUDA PROPERTY STRINGS ON OFF EMULATED)
option(HETSGD_MPI "Build the MPI cluster when MPI is found" ON)
set(HETSGD_LAYERS_FROM "" CACHE PATH "A build of these sources that lends its layers to an emulated one; empty: none")
set(HETSGD_MARCH "" CACHE STRING "-march of all code (native, x86-64-v3, ...); empty: one program for all processors \
from x86-64-v3 on, with kernels for each kind, where the compiler is GCC for x86-64; native elsewhere and with sanitizers")
set(HETSGD_SANITIZE "" CACHE STRING "address,undefined or thread; empty: none")

if(HETSGD_LAYERS_FROM AND NOT HETSGD_CUDA STREQUAL "EMULATED")
  message(FATAL_ERROR "HETSGD_LAYERS_FROM: expected HETSGD_CUDA=EMULATED, found ${HETSGD_CUDA}")
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(HETSGD_CCACHE ccache)
if(HETSGD_CCACHE)
  # The sloppiness lets ccache keep objects that use precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${HETSGD_CCACHE})
endif()

# Flags of our own targets only; a system header never sees the warnings.
add_library(hetsgd_flags INTERFACE)
target_include_directories(hetsgd_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/lib>)
target_compile_options(hetsgd_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
# GCC 12 warns of overlaps and overflows inside std::string's own operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(hetsgd_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>)
endif()
# GCC collects the garbage of its own memory again and again in units as large as a folder. A heap of 2 GB before the
# first collection saves 4 % of the processor time and takes half a gigabyte more.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(hetsgd_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=2000000>)
endif()
# A product and a sum are rounded twice, unless the source says fma: else compilers, processors and -mtune choose.
target_compile_options(hetsgd_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# The sets of CPU kernels: hetsgd_kernel_sets() in HetsgdTargets.cmake; empty: their files are compiled as all others. A
# target is compiled for its property TARGET_MARCH. Tests include headers of kernels, so they are compiled as a set is.
set(HETSGD_KERNEL_SETS "")
set(HETSGD_TARGET_MARCH "${HETSGD_MARCH}")
set(HETSGD_TESTS_MARCH "${HETSGD_MARCH}")
if(NOT HETSGD_MARCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT HETSGD_SANITIZE)
  set(HETSGD_KERNEL_SETS v3 v4)
  set(HETSGD_TARGET_MARCH x86-64-v2)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null OUTPUT_VARIABLE macros)
  set(HETSGD_TESTED_SET v3)  # the best one that runs here
  if(macros MATCHES "__AVX512BW__" AND macros MATCHES "__AVX512VL__")
    set(HETSGD_TESTED_SET v4)
  endif()
  set(HETSGD_TESTS_MARCH x86-64-${HETSGD_TESTED_SET})
elseif(NOT HETSGD_MARCH)
  set(HETSGD_TARGET_MARCH native)
  set(HETSGD_TESTS_MARCH native)
endif()
define_property(TARGET PROPERTY TARGET_MARCH INITIALIZE_FROM_VARIABLE HETSGD_TARGET_MARCH)
target_compile_options(hetsgd_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-march=$<TARGET_PROPERTY:TARGET_MARCH>>>
  $<$<COMPILE_LANGUAGE:CXX>:$<INSTALL_INTERFACE:-march=${HETSGD_TARGET_MARCH}>>)
if(HETSGD_SANITIZE)
  target_compile_options(hetsgd_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${HETSGD_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(hetsgd_flags INTERFACE -fsanitize=${HETSGD_SANITIZE})
endif()
