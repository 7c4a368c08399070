# hetsgd_emulated_kernels(RESULT TARGET SOURCES...): .cu files as C++ with their launches rewritten, for TARGET, and .cuh
# files likewise, which go before the originals.
function(hetsgd_emulated_kernels result target)
  set(rewrite ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/rewrite_launches.py)
  set(all)
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(generated ${CMAKE_CURRENT_BINARY_DIR}/emulated/${target}/${name}_cu.cpp)
    if(source MATCHES "\\.cuh$")
      file(RELATIVE_PATH generated ${CMAKE_CURRENT_SOURCE_DIR} ${source})
      set(generated ${CMAKE_CURRENT_BINARY_DIR}/emulated/include/${generated})
    endif()
    add_custom_command(
      OUTPUT ${generated}
      COMMAND ${Python3_EXECUTABLE} ${rewrite} ${source} ${generated}
      DEPENDS ${source} ${rewrite}
      COMMENT "Emulated kernels of ${source}" VERBATIM)
    # nvcc knows the pragmas, and converts and shadows in silence.
    set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS
      "-Wno-unknown-pragmas;-Wno-conversion;-Wno-sign-compare;-Wno-shadow;-Wno-unused-parameter;-Wno-unused-but-set-parameter")
    list(APPEND all ${generated})
  endforeach()
  target_include_directories(${target} BEFORE PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/emulated/include)
  set(${result} ${all} PARENT_SCOPE)
endfunction()
