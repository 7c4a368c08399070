# `cmake --install build/release --prefix P`: the program, the headers of lib/, and a CMake package with which plugins
# are built outside of this tree (cmake/package/hetsgdConfig.cmake.in; lib/algorithm/README.md shows one).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/hetsgd)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hetsgd)
set(generated ${CMAKE_BINARY_DIR}/lib/generated/core)

set_target_properties(hetsgd PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
target_include_directories(hetsgd_flags INTERFACE $<INSTALL_INTERFACE:${headers}>)
install(TARGETS hetsgd hetsgd_flags EXPORT hetsgdTargets RUNTIME)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/ DESTINATION ${headers} FILES_MATCHING PATTERN *.hpp)
install(EXPORT hetsgdTargets NAMESPACE hetsgd:: DESTINATION ${package})

file(RELATIVE_PATH HETSGD_HEADERS_FROM_PACKAGE /${package} /${headers})
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
list(JOIN flags " " HETSGD_FLAGS_OF_PLUGINS)
configure_file(cmake/package/hetsgdConfig.cmake.in ${CMAKE_BINARY_DIR}/package/hetsgdConfig.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/hetsgdConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/hetsgdConfig.cmake ${CMAKE_BINARY_DIR}/package/hetsgdConfigVersion.cmake
              cmake/package/plugin_stamp.cpp lib/core/headers.cmake ${generated}/build_stamp.hpp
              ${generated}/revision.hpp
        DESTINATION ${package})
