# The decoders of pictures. A program takes them from their archives, where there are any: each shared library would
# lengthen every start of gpux. A library takes the shared ones, for Debian's archives are not made for that.
set(codec_archives)
set(codec_libraries)
set(codec_includes)
foreach(codec libjpeg libpng16 libwebpdemux libwebp)
  pkg_check_modules(GPUX_${codec} REQUIRED ${codec})
  list(APPEND codec_libraries ${GPUX_${codec}_LINK_LIBRARIES})
  list(APPEND codec_includes ${GPUX_${codec}_INCLUDE_DIRS})
  foreach(name ${GPUX_${codec}_STATIC_LIBRARIES})
    if(name MATCHES "^(z|m|pthread)$")
      continue()
    endif()
    find_library(GPUX_ARCHIVE_${name} lib${name}.a HINTS ${GPUX_${codec}_STATIC_LIBRARY_DIRS})
    mark_as_advanced(GPUX_ARCHIVE_${name})
    if(GPUX_ARCHIVE_${name} AND NOT GPUX_SANITIZE MATCHES thread)
      list(APPEND codec_archives ${GPUX_ARCHIVE_${name}})
    else()
      list(APPEND codec_archives ${GPUX_${codec}_LINK_LIBRARIES})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES codec_libraries)
list(REMOVE_DUPLICATES codec_includes)

add_library(gpux_picture_codecs INTERFACE)
target_include_directories(gpux_picture_codecs SYSTEM INTERFACE ${codec_includes})
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
target_link_libraries(gpux_picture_codecs INTERFACE
  "$<${is_program}:${codec_archives}>"
  "$<$<NOT:${is_program}>:-Wl,--push-state,--as-needed;${codec_libraries};-Wl,--pop-state>"
  ZLIB::ZLIB Threads::Threads m)
