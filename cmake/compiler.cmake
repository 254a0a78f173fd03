# Tools that make builds quicker where they are installed, and the warnings and sanitizers of every target of ours.
find_program(GPUX_CCACHE ccache)
if(GPUX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree, so that two clones share what ccache holds.
  # What a precompiled header says of times and macros is the compiler's to check.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${GPUX_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
# Headers of other libraries that most files of a target read take more time than the files themselves. The preset tsan goes without,
# so that each source includes what it needs.
option(GPUX_PRECOMPILED_HEADERS "Read large headers once" ON)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Without the header's own path, which CMake names too and by which ccache tells one folder from another.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()
function(gpux_precompile target)
  if(NOT GPUX_PRECOMPILED_HEADERS)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  # What ccache needs to keep what was made with them.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  if(GPUX_CCACHE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # clang writes paths and times into what it has precompiled, so ccache takes the checksum of the text that was read in its place.
    set(file CMakeFiles/${target}.dir/cmake_pch.hxx)
    set(sum ${CMAKE_CURRENT_BINARY_DIR}/${file}.pch.sum)
    set(folders $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    add_custom_command(OUTPUT ${sum} DEPFILE ${sum}.d
      COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -x c++ -E -P -dD -MD -MT ${sum} -MF ${sum}.d
              "$<$<BOOL:${folders}>:-I$<JOIN:${folders},;-I>>"
              ${file} -o ${file}.text
      COMMAND ${CMAKE_COMMAND} -E sha256sum ${file}.text > ${sum}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} VERBATIM COMMAND_EXPAND_LISTS)
    target_sources(${target} PRIVATE ${sum})
  endif()
endfunction()

find_program(GPUX_MOLD mold)
if(GPUX_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(gpux_compile_options INTERFACE)
target_compile_options(gpux_compile_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # std::stable_sort of libstdc++ 12 names what it has deprecated itself.
  target_compile_options(gpux_compile_options INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # gcc looks for memory to free again and again once it has 128 MB, which a precompiled header takes: a tenth of its time
  # for a fifth more memory.
  target_compile_options(gpux_compile_options INTERFACE "SHELL:--param ggc-min-heapsize=1000000")
endif()
if(GPUX_WARNINGS_AS_ERRORS)
  target_compile_options(gpux_compile_options INTERFACE -Werror)
endif()
if(GPUX_FUZZ)
  # Coverage for the fuzzers to steer by; what is no fuzzer links without their main().
  set(GPUX_SANITIZE address,undefined)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(GPUX_SANITIZE)
  # Set for everything, so that no two objects of one program disagree.
  add_compile_options(-fsanitize=${GPUX_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GPUX_SANITIZE})
endif()
