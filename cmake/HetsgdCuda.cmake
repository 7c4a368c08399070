# CUDA devices are built where the toolkit is found and HETSGD_CUDA is on. What the program then needs of CUDA when it
# starts is nothing: the runtime is linked statically and looks for the driver at its first call, cuBLAS is loaded with
# the first GPU.
#
# Architectures: machine code for 75, 80, 86, 89, 90 and what newer ones nvcc offers, and PTX of the newest for those to
# come. `-DCMAKE_CUDA_ARCHITECTURES=90` builds one, much quicker.
set(HETSGD_CUDA_VERSION "")        # empty: not built in
set(HETSGD_CUDA_ARCHITECTURES "")  # as --version shows them

if(HETSGD_CUDA)
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
  else()
    message(STATUS "CUDA: no toolkit (12.0 or newer) found; built without")
  endif()
endif()

# hetsgd_cuda_kernels(TARGET FOLDER): the kernels of a folder, compiled into a target of one of the layers.
function(hetsgd_cuda_kernels target folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu)
  target_sources(${target} PRIVATE ${sources})
  target_link_libraries(${target} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  target_compile_definitions(${target} PRIVATE
    HETSGD_CUDA_ARCHITECTURES="${HETSGD_CUDA_ARCHITECTURES}"
    HETSGD_CUBLAS_MAJOR="${CUDAToolkit_VERSION_MAJOR}"
    HETSGD_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}")
endfunction()
