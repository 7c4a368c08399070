# hetsgd_embed_schema(experiment schemas/sweep.json sweep_schema experiment/sweep_spec.hpp): embeds a JSON file of the Python
# package, such as a schema, as `std::string_view hetsgd::sweep_schema()`; a change of the file configures anew.
function(hetsgd_embed_schema layer file name header)
  if(NOT TARGET hetsgd_${layer})
    return()
  endif()
  set(path ${CMAKE_SOURCE_DIR}/scripts/hetsgd/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  file(READ ${path} HETSGD_SCHEMA)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/${layer}/${name}.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
// Configured by result/schema.cmake.
#include "@header@"

std::string_view hetsgd::@name@() {
  return R"json(@HETSGD_SCHEMA@)json";
}
]])
  hetsgd_sources(hetsgd_${layer} ${generated})
endfunction()
