# The decoders of pictures. A program takes them from their archives, where there are any: each shared library would
# lengthen every start of gpux. A library takes the shared ones, for Debian's archives are not made for that.
set(archives)
set(shared)
foreach(codec libjpeg libpng16 libwebpdemux libwebp)
  pkg_check_modules(GPUX_${codec} REQUIRED ${codec})
  find_library(GPUX_ARCHIVE_${codec} ${codec}.a HINTS ${GPUX_${codec}_LIBRARY_DIRS})
  mark_as_advanced(GPUX_ARCHIVE_${codec})
  list(APPEND shared ${GPUX_${codec}_LINK_LIBRARIES})
  if(GPUX_ARCHIVE_${codec} AND NOT GPUX_SANITIZE MATCHES thread)
    list(APPEND archives ${GPUX_ARCHIVE_${codec}})
  else()
    list(APPEND archives ${GPUX_${codec}_LINK_LIBRARIES})
  endif()
  list(APPEND codec_includes ${GPUX_${codec}_INCLUDE_DIRS})
endforeach()
list(REMOVE_DUPLICATES shared)

add_library(gpux_picture_codecs INTERFACE)
target_include_directories(gpux_picture_codecs SYSTEM INTERFACE ${codec_includes})
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
target_link_libraries(gpux_picture_codecs INTERFACE
  "$<${is_program}:${archives}>"
  "$<$<NOT:${is_program}>:-Wl,--push-state,--as-needed;${shared};-Wl,--pop-state>"
  ZLIB::ZLIB Threads::Threads m)
