# CUDA devices are built where the toolkit is found and HETSGD_CUDA is on. What the program then needs of CUDA when it
# starts is nothing: the runtime is linked statically and looks for the driver at its first call, cuBLAS is loaded with
# the first GPU.
#
# Architectures: machine code for 75, 80, 86, 89, 90 and what newer ones nvcc offers, and PTX of the newest for those to
# come. `-DCMAKE_CUDA_ARCHITECTURES=90` builds one, much quicker.
set(HETSGD_CUDA_VERSION "")        # empty: not built in
set(HETSGD_CUDA_ARCHITECTURES "")  # as --version shows them
set(HETSGD_NCCL_VERSION "")        # empty: built without

#
# `-DHETSGD_CUDA=EMULATED` builds the same sources without a toolkit, against an emulation of the CUDA runtime on the
# CPU: how GPU code is tested where no GPU is (tests/cuda_emulation/emulation.hpp; preset cuda-emulation).
if(HETSGD_CUDA STREQUAL "EMULATED")
  if(NOT HETSGD_TESTS)
    message(FATAL_ERROR "HETSGD_CUDA=EMULATED is a part of the tests: it needs HETSGD_TESTS=ON")
  endif()
  set(HETSGD_CUDA_VERSION "13.0 (emulated)")
  set(HETSGD_CUDA_ARCHITECTURES "emulated")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
elseif(HETSGD_CUDA)
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE offered)
      set(architectures "")
      foreach(architecture 75 80 86 89 90 100 120)
        if(offered MATCHES "sm_${architecture}[\r\n]")
          list(APPEND architectures ${architecture}-real)
          set(newest ${architecture})
        endif()
      endforeach()
      list(APPEND architectures ${newest}-virtual)
      set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to build code for")
    endif()
    if(NOT DEFINED CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
      set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    endif()
    if(HETSGD_CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${HETSGD_CCACHE})
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no 20; the sources are plain
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(HETSGD_CUDA_VERSION ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
    string(REPLACE ";" " " HETSGD_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
    message(STATUS "CUDA ${HETSGD_CUDA_VERSION}, architectures ${HETSGD_CUDA_ARCHITECTURES}")
    # NCCL's header is needed here; its library is loaded when it is used.
    find_path(HETSGD_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(HETSGD_NCCL_INCLUDE)
      file(STRINGS ${HETSGD_NCCL_INCLUDE}/nccl.h numbers REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
      string(REGEX REPLACE "[^0-9;]" "" numbers "${numbers}")
      list(JOIN numbers "." HETSGD_NCCL_VERSION)
    else()
      message(STATUS "NCCL: no header found; built without")
    endif()
  else()
    message(STATUS "CUDA: no toolkit (12.0 or newer) found; built without")
  endif()
endif()

# Layers with GPU code link these: the runtime, and NCCL's header where it is used. In an emulated build tests/cuda_emulation
# fills in both.
add_library(hetsgd_cuda INTERFACE)
add_library(hetsgd_nccl INTERFACE)
if(HETSGD_CUDA STREQUAL "EMULATED")
  include(${CMAKE_SOURCE_DIR}/tests/cuda_emulation/kernels.cmake)
elseif(HETSGD_CUDA_VERSION)
  target_link_libraries(hetsgd_cuda INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
  target_compile_definitions(hetsgd_cuda INTERFACE
    HETSGD_CUDA_ARCHITECTURES="${HETSGD_CUDA_ARCHITECTURES}"
    HETSGD_CUBLAS_MAJOR="${CUDAToolkit_VERSION_MAJOR}"
    HETSGD_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}")
  if(HETSGD_NCCL_VERSION)
    target_include_directories(hetsgd_nccl SYSTEM INTERFACE ${HETSGD_NCCL_INCLUDE})
    target_compile_definitions(hetsgd_nccl INTERFACE HETSGD_NCCL)
  endif()
endif()

# hetsgd_cuda_kernels(TARGET FOLDER): the kernels of a folder, compiled into a target of one of the layers. NAME.sm90a.cu is
# compiled for that architecture alone, whose instructions no other GPU has, whatever CMAKE_CUDA_ARCHITECTURES says.
function(hetsgd_cuda_kernels target folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu)
  if(HETSGD_CUDA STREQUAL "EMULATED")
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cuh)
    hetsgd_emulated_kernels(sources ${target} ${sources} ${headers})
  else()
    set(hopper ${sources})
    list(FILTER hopper INCLUDE REGEX "\\.sm90a\\.cu$")
    list(FILTER sources EXCLUDE REGEX "\\.sm90a\\.cu$")
    if(hopper)
      add_library(${target}_sm90a OBJECT ${hopper})
      set_target_properties(${target}_sm90a PROPERTIES CUDA_ARCHITECTURES OFF)
      target_compile_options(${target}_sm90a PRIVATE -gencode=arch=compute_90a,code=sm_90a)
      target_link_libraries(${target}_sm90a PRIVATE hetsgd_flags hetsgd_cuda)
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_sm90a>)
    endif()
  endif()
  target_sources(${target} PRIVATE ${sources})
  target_link_libraries(${target} PRIVATE hetsgd_cuda)
endfunction()
