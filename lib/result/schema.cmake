# Embeds schema.json, its single source, into hetsgd_result; a change of the file configures anew.
if(TARGET hetsgd_result)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/schema.json)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/schema.json HETSGD_SCHEMA)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/result/schema_text.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
// Configured by result/schema.cmake from result/schema.json.
#include "result/validate.hpp"

std::string_view hetsgd::result_schema() {
  return R"json(@HETSGD_SCHEMA@)json";
}
]])
  target_sources(hetsgd_result PRIVATE ${generated})
  target_include_directories(hetsgd_result SYSTEM PRIVATE ${VALIJSON_INCLUDE})
endif()
