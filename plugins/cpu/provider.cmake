# What the CMakeLists.txt of a provider that shares this folder includes. In gpux's own build and alone.
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  set(GPUX_DEPS_DIR ${CMAKE_CURRENT_LIST_DIR}/../../.deps CACHE PATH "Folder that holds onnxruntime/include")
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
else()
  # Where gpux looks for providers.
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gpux/providers)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(GNUInstallDirs)
find_path(GPUX_ONNXRUNTIME_INCLUDE onnxruntime_cxx_api.h
          HINTS ${GPUX_DEPS_DIR}/onnxruntime/include PATH_SUFFIXES onnxruntime onnxruntime/core/session REQUIRED)

function(gpux_cpu_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers
                                           $<$<BOOL:${GPUX_WARNINGS_AS_ERRORS}>:-Werror>)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# gpux_cpu_library(NAME SOURCES FILE… [INCLUDE FOLDER]): without ONNX Runtime, so that tests reach it. INCLUDE: where its
# headers are found.
function(gpux_cpu_library name)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "INCLUDE" "SOURCES")
  add_library(${name} STATIC ${given_SOURCES})
  gpux_cpu_options(${name})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/${given_INCLUDE})
endfunction()

# gpux_kernel_tables(TARGET FOLDER TABLES NAME… [OPTIONS OPTION…] [INSTRUCTIONS OPTION…]): FOLDER/reference.cpp, and on
# x86-64 FOLDER/NAME.cpp for each set of instructions. OPTIONS are for all of them, INSTRUCTIONS for all but the first.
function(gpux_kernel_tables target folder)
  cmake_parse_arguments(PARSE_ARGV 2 given "" "" "TABLES;OPTIONS;INSTRUCTIONS")
  # Loops of rows become vectors at -O3, in a debugger's build too: they are what this is about.
  set(options -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math ${given_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Else what is added up first would depend on where a row lies in memory.
    list(APPEND options --param=vect-max-peeling-for-alignment=0)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # With sanitizers no loop becomes vectors.
    list(APPEND options -Wno-pass-failed)
  endif()
  # For tests that compile a table in another way.
  set_target_properties(${target} PROPERTIES GPUX_KERNEL_OPTIONS "${options}")
  target_sources(${target} PRIVATE ${folder}/reference.cpp)
  set_source_files_properties(${folder}/reference.cpp PROPERTIES COMPILE_OPTIONS "${options}")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  set(avx2 -mavx2 -mfma ${given_INSTRUCTIONS})
  set(avxvnni ${avx2})
  set(avx512bw ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(avx512vnni ${avx512bw} -mavx512vnni)
  set(avx512 ${avx512vnni} -mavx512bf16)
  foreach(name ${given_TABLES})
    target_sources(${target} PRIVATE ${folder}/${name}.cpp)
    set_source_files_properties(${folder}/${name}.cpp PROPERTIES COMPILE_OPTIONS "${options};${${name}}")
  endforeach()
endfunction()

# gpux_cpu_provider(NAME SOURCES FILE… LINK LIBRARY DEFINE NAME=VALUE): the library that ONNX Runtime loads.
function(gpux_cpu_provider name)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "LINK;DEFINE" "SOURCES")
  add_library(${name} MODULE ${given_SOURCES})
  gpux_cpu_options(${name})
  target_link_libraries(${name} PRIVATE gpux_cpu_plugin ${given_LINK})
  target_compile_definitions(${name} PRIVATE ${given_DEFINE})
  get_target_property(folder gpux_cpu SOURCE_DIR)
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${folder}/plugin/exports.map)
  target_link_options(${name} PRIVATE LINKER:--version-script=${folder}/plugin/exports.map)
  if(NOT (GPUX_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang))
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  if(TARGET installed)
    add_dependencies(installed ${name})
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gpux/providers)
endfunction()

if(NOT TARGET gpux_cpu)
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR} ${CMAKE_BINARY_DIR}/plugins/cpu)
endif()
