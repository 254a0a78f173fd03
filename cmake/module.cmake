if(GPUX_PRECOMPILED_HEADERS)
  # The headers that most sources read, once for all modules.
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled_modules.cpp "")
  add_library(gpux_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled_modules.cpp)
  target_compile_definitions(gpux_precompiled PRIVATE GPUX_BUILDING)
  target_link_libraries(gpux_precompiled PRIVATE gpux_compile_options Threads::Threads fmt::fmt)
  gpux_precompile(gpux_precompiled <fmt/format.h> <algorithm> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional>
                  <span> <string> <thread> <variant> <vector>)
endif()

# gpux_module(NAME SOURCES … DEPENDS lower modules … LIBRARIES third-party targets … HEADERS …)
# A folder of src/ as one static library, gpux_NAME, that sees only what it names. HEADERS are precompiled for it alone, instead of
# those that all modules share.
function(gpux_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES;HEADERS" ${ARGN})
  add_library(gpux_${name} STATIC ${ARG_SOURCES})
  target_include_directories(gpux_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(gpux_${name} PRIVATE gpux_compile_options ${ARG_LIBRARIES})
  target_compile_definitions(gpux_${name} PRIVATE GPUX_BUILDING)
  if(ARG_HEADERS)
    gpux_precompile(gpux_${name} ${ARG_HEADERS})
  elseif(GPUX_PRECOMPILED_HEADERS)
    target_precompile_headers(gpux_${name} REUSE_FROM gpux_precompiled)
    target_compile_options(gpux_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  foreach(lower ${ARG_DEPENDS})
    target_link_libraries(gpux_${name} PUBLIC gpux_${lower})
  endforeach()
endfunction()
