# The installed library: all modules below the servers and the program, in one shared object that shows only the public API.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(gpux SHARED)
foreach(module base text tensor image onnx ort store registry project provider checkpoint importer runtime embedding vector_store pipeline model
        evaluation generation library)
  target_sources(gpux PRIVATE $<TARGET_OBJECTS:gpux_${module}>)
  # For what the modules link to themselves; their archives add nothing to their objects.
  target_link_libraries(gpux PRIVATE gpux_${module})
endforeach()
target_include_directories(gpux PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(gpux PUBLIC cxx_std_20)
# The tokenizers' archive shows its own symbols.
target_link_options(gpux PRIVATE LINKER:--exclude-libs,ALL)
set_target_properties(gpux PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                      EXPORT_NAME gpux)
add_library(gpux::gpux ALIAS gpux)

add_dependencies(installed gpux)
install(TARGETS gpux EXPORT gpux LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpux DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT gpux NAMESPACE gpux:: FILE gpuxTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpux)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gpuxConfig.cmake.in ${CMAKE_BINARY_DIR}/gpuxConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpux)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gpuxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gpuxConfig.cmake ${CMAKE_BINARY_DIR}/gpuxConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpux)
file(RELATIVE_PATH GPUX_PKGCONFIG_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/gpux.pc.in ${CMAKE_BINARY_DIR}/gpux.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gpux.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ONNX Runtime comes along, beside gpux, where set-up has fetched it.
file(GLOB core_libraries ${GPUX_DEPS_DIR}/onnxruntime/lib/libonnxruntime.so*)
install(FILES ${core_libraries} DESTINATION lib/gpux)
