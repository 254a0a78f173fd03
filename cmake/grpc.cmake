# gRPC and protobuf, linked into gpux: as shared libraries they bring 55 others along, which each start of gpux would
# wait for. Where the archives are missing the shared libraries serve all the same.
pkg_check_modules(GPUX_GRPC REQUIRED grpc++>=1.51 protobuf>=3.21)
find_program(GPUX_PROTOC protoc REQUIRED)
find_program(GPUX_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

# The archives of what pkg-config names for a static link; those of the system stay shared.
set(GPUX_GRPC_ARCHIVES)
set(system_libraries ssl crypto z m dl rt pthread atomic)
set(all_static TRUE)
foreach(name grpc++_reflection ${GPUX_GRPC_STATIC_LIBRARIES})
  if(name IN_LIST system_libraries)
    continue()
  endif()
  find_library(GPUX_ARCHIVE_${name} lib${name}.a HINTS ${GPUX_GRPC_STATIC_LIBRARY_DIRS})
  mark_as_advanced(GPUX_ARCHIVE_${name})
  if(GPUX_ARCHIVE_${name})
    list(APPEND GPUX_GRPC_ARCHIVES ${GPUX_ARCHIVE_${name}})
  else()
    message(STATUS "There is no lib${name}.a: gRPC is linked as a shared library")
    set(all_static FALSE)
    break()
  endif()
endforeach()
list(REMOVE_DUPLICATES GPUX_GRPC_ARCHIVES)

if(GPUX_SANITIZE MATCHES thread)
  # By their names tests/tsan.suppressions tells what was not compiled under it.
  set(all_static FALSE)
endif()

add_library(gpux_grpc INTERFACE)
target_include_directories(gpux_grpc SYSTEM INTERFACE ${GPUX_GRPC_INCLUDE_DIRS})
if(all_static)
  list(JOIN GPUX_GRPC_ARCHIVES "," archives)
  # They refer to each other in circles.
  target_link_libraries(gpux_grpc INTERFACE "$<LINK_GROUP:RESCAN,${archives}>")
else()
  target_link_libraries(gpux_grpc INTERFACE grpc++_reflection ${GPUX_GRPC_LINK_LIBRARIES})
endif()
target_link_libraries(gpux_grpc INTERFACE OpenSSL::SSL OpenSSL::Crypto ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS} rt atomic)

# gpux_protocol(NAME FILE.proto …): the messages as the library gpux_NAME_messages, the clients as gpux_NAME_clients,
# made in the build folder and compiled without our warnings.
function(gpux_protocol name)
  set(folder ${CMAKE_BINARY_DIR}/generated/${name})
  file(MAKE_DIRECTORY ${folder})
  set(messages)
  set(clients)
  foreach(file ${ARGN})
    get_filename_component(stem ${file} NAME_WE)
    get_filename_component(from ${file} ABSOLUTE)
    get_filename_component(in ${from} DIRECTORY)
    add_custom_command(
      OUTPUT ${folder}/${stem}.pb.h ${folder}/${stem}.pb.cc ${folder}/${stem}.grpc.pb.h ${folder}/${stem}.grpc.pb.cc
      COMMAND ${GPUX_PROTOC} --proto_path=${in} --cpp_out=${folder} --grpc_out=${folder}
              --plugin=protoc-gen-grpc=${GPUX_GRPC_PLUGIN} ${from}
      DEPENDS ${from}
      VERBATIM)
    list(APPEND messages ${folder}/${stem}.pb.cc ${folder}/${stem}.pb.h)
    list(APPEND clients ${folder}/${stem}.grpc.pb.cc ${folder}/${stem}.grpc.pb.h)
  endforeach()
  add_library(gpux_${name}_messages STATIC ${messages})
  target_include_directories(gpux_${name}_messages SYSTEM INTERFACE ${folder})
  target_include_directories(gpux_${name}_messages PRIVATE ${folder})
  target_link_libraries(gpux_${name}_messages PUBLIC gpux_grpc)
  add_library(gpux_${name}_clients STATIC EXCLUDE_FROM_ALL ${clients})
  target_link_libraries(gpux_${name}_clients PUBLIC gpux_${name}_messages)
  target_compile_options(gpux_${name}_clients PRIVATE $<$<CONFIG:Release>:-O0>)  # for tests
endfunction()
