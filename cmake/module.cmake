if(GPUX_PRECOMPILED_HEADERS)
  # The headers that most sources read, once for all modules.
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled_modules.cpp "")
  add_library(gpux_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled_modules.cpp)
  target_compile_definitions(gpux_precompiled PRIVATE GPUX_BUILDING)
  target_link_libraries(gpux_precompiled PRIVATE gpux_compile_options Threads::Threads fmt::fmt nlohmann_json::nlohmann_json)
  target_compile_options(gpux_precompiled PRIVATE $<$<CONFIG:Release>:-O2>)
  gpux_precompile(gpux_precompiled <fmt/format.h> <algorithm> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional>
                  <span> <string> <thread> <variant> <vector> ${PROJECT_SOURCE_DIR}/src/base/json_instances.h)
endif()

# Sources of a module are compiled several at a time: half of the compiler's time goes into headers. Where warnings are errors each
# is compiled alone, so that one that lacks an include is found, and where there is no Python.
set(GPUX_UNITY 8 CACHE STRING "Sources of a module that are compiled together; 0: each alone")
find_program(GPUX_SYSTEM_PYTHON python3)
if(GPUX_UNITY AND GPUX_SYSTEM_PYTHON AND NOT GPUX_WARNINGS_AS_ERRORS)
  execute_process(COMMAND ${GPUX_SYSTEM_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/unity_groups.py ${GPUX_UNITY}
                          ${CMAKE_BINARY_DIR}/unity_groups.cmake ${PROJECT_SOURCE_DIR}
                  COMMAND_ERROR_IS_FATAL ANY)
  include(${CMAKE_BINARY_DIR}/unity_groups.cmake)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/unity_groups.py)
endif()

# Which of its sources are compiled together: cmake/unity_groups.py has found those that mean the same together as alone.
function(gpux_unite target name)
  if(NOT gpux_unity_${name})
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # An included source is no header for gcc either, whose two warnings here are wrong then, or come with inlining alone.
  # The presets with warnings as errors compile each source alone.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-maybe-uninitialized>)
  foreach(pair ${gpux_unity_${name}})
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 source)
    list(GET pair 1 group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# ROOT/FOLDER leads to what is in src/FOLDER, but for the modules in it.
function(gpux_include_root root folder)
  set(from ${PROJECT_SOURCE_DIR}/src/${folder})
  set(to ${root}/${folder})
  cmake_path(GET to PARENT_PATH parent)
  file(MAKE_DIRECTORY ${parent})
  file(GLOB modules ${from}/*/CMakeLists.txt)
  if(NOT modules)
    file(CREATE_LINK ${from} ${to} SYMBOLIC)
    return()
  endif()
  if(IS_SYMLINK ${to})
    file(REMOVE ${to})
  endif()
  file(MAKE_DIRECTORY ${to})
  file(GLOB entries RELATIVE ${from} CONFIGURE_DEPENDS ${from}/*)
  foreach(entry ${entries})
    if(NOT EXISTS ${from}/${entry}/CMakeLists.txt)
      file(CREATE_LINK ${from}/${entry} ${to}/${entry} SYMBOLIC)
    elseif(IS_SYMLINK ${to}/${entry})
      file(REMOVE ${to}/${entry})
    endif()
  endforeach()
endfunction()

# gpux_module(NAME SOURCES … DEPENDS lower modules … LIBRARIES third-party targets … HEADERS … OPTIMIZATION …)
# A folder of src/ as one static library, gpux_NAME. It can include its own headers and those of the modules below it, and no
# others: its include root, modules/NAME in the build folder, holds nothing but links to what is in src/NAME. NAME may be a folder in
# another: server/http is gpux_server_http. HEADERS are precompiled for it alone, instead of
# those that all modules share. OPTIMIZATION, in a release: -O2 unless it says otherwise. -O3, a quarter more of the compiler's
# time, is for modules whose own loops are what users wait for.
function(gpux_module folder)
  string(REPLACE / _ name ${folder})
  cmake_parse_arguments(ARG "" "OPTIMIZATION" "SOURCES;DEPENDS;LIBRARIES;HEADERS" ${ARGN})
  if(NOT ARG_OPTIMIZATION)
    set(ARG_OPTIMIZATION -O2)
  endif()
  add_library(gpux_${name} STATIC ${ARG_SOURCES})
  set(root ${PROJECT_BINARY_DIR}/modules/${name})
  gpux_include_root(${root} ${folder})
  target_include_directories(gpux_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${root})
  set_property(GLOBAL APPEND PROPERTY gpux_modules ${folder})
  target_link_libraries(gpux_${name} PRIVATE gpux_compile_options ${ARG_LIBRARIES})
  target_compile_definitions(gpux_${name} PRIVATE GPUX_BUILDING)
  target_compile_options(gpux_${name} PRIVATE $<$<CONFIG:Release>:${ARG_OPTIMIZATION}>)
  if(ARG_HEADERS)
    gpux_precompile(gpux_${name} ${ARG_HEADERS})
  elseif(GPUX_PRECOMPILED_HEADERS)
    target_precompile_headers(gpux_${name} REUSE_FROM gpux_precompiled)
    target_compile_options(gpux_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  gpux_unite(gpux_${name} ${name})
  foreach(lower ${ARG_DEPENDS})
    string(REPLACE / _ lower ${lower})
    target_link_libraries(gpux_${name} PUBLIC gpux_${lower})
  endforeach()
endfunction()
