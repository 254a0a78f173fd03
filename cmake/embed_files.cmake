# gpux_embed_files(SOURCE HEADER NAMESPACE FUNCTION FILES…): writes the C++ source, when it is built, that defines
#   std::span<const EmbeddedFile> NAMESPACE::FUNCTION() noexcept
# as HEADER declares it: the name and the text of each file. Called without CMake's project, as a script, it writes it.
function(gpux_embed_files source header namespace function)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  list(JOIN files "|" joined)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D embed_source=${source} -D embed_header=${header} -D embed_namespace=${namespace}
            -D embed_function=${function} "-D embed_files=${joined}" -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding ${function}"
    VERBATIM)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE OR NOT embed_source)
  return()
endif()

string(REPLACE "|" ";" files "${embed_files}")
set(entries)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${file} has )embedded\", which ends the text in C++")
  endif()
  string(APPEND entries "    {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
list(LENGTH files count)
file(WRITE ${embed_source} "// Written by cmake/embed_files.cmake.
#include \"${embed_header}\"

#include <array>

namespace ${embed_namespace} {

std::span<const EmbeddedFile> ${embed_function}() noexcept {
  static constexpr std::array<EmbeddedFile, ${count}> files{{
${entries}  }};
  return files;
}

}  // namespace ${embed_namespace}
")
