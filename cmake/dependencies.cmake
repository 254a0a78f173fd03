find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(Boost 1.81 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(FastFloat REQUIRED)

add_library(gpux_protozero INTERFACE)
find_path(GPUX_PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)
target_include_directories(gpux_protozero SYSTEM INTERFACE ${GPUX_PROTOZERO_INCLUDE})

# libdbus's headers only: the library is opened when a source of `gpux daemon` is a bus.
pkg_check_modules(GPUX_DBUS REQUIRED dbus-1)
add_library(gpux_dbus_headers INTERFACE)
target_include_directories(gpux_dbus_headers SYSTEM INTERFACE ${GPUX_DBUS_INCLUDE_DIRS})

# libedit's header only: the library is opened when `gpux chat` reads from a terminal.
pkg_check_modules(GPUX_EDIT REQUIRED libedit)
add_library(gpux_edit_headers INTERFACE)
target_include_directories(gpux_edit_headers SYSTEM INTERFACE ${GPUX_EDIT_INCLUDE_DIRS})

# libcurl's headers only: the library is opened by the first download.
pkg_check_modules(GPUX_CURL REQUIRED libcurl>=7.66)
add_library(gpux_curl_headers INTERFACE)
target_include_directories(gpux_curl_headers SYSTEM INTERFACE ${GPUX_CURL_INCLUDE_DIRS})

# libpq's header only: the library is opened by the first use of a PostgreSQL store.
pkg_check_modules(GPUX_PQ REQUIRED libpq)
add_library(gpux_pq_headers INTERFACE)
target_include_directories(gpux_pq_headers SYSTEM INTERFACE ${GPUX_PQ_INCLUDE_DIRS})

# usearch's headers: the graph of an approximate index.
find_path(GPUX_USEARCH_INCLUDE usearch/index.hpp HINTS ${GPUX_DEPS_DIR}/usearch/include REQUIRED)
add_library(gpux_usearch_headers INTERFACE)
target_include_directories(gpux_usearch_headers SYSTEM INTERFACE ${GPUX_USEARCH_INCLUDE})

# Linked: a sandbox must not depend on what is installed by chance.
pkg_check_modules(GPUX_SECCOMP REQUIRED IMPORTED_TARGET libseccomp>=2.5)

# ONNX Runtime's headers only: the library itself is opened at run time.
add_library(gpux_onnxruntime_headers INTERFACE)
find_path(GPUX_ONNXRUNTIME_INCLUDE onnxruntime_cxx_api.h
          HINTS ${GPUX_DEPS_DIR}/onnxruntime/include PATH_SUFFIXES onnxruntime onnxruntime/core/session REQUIRED)
target_include_directories(gpux_onnxruntime_headers SYSTEM INTERFACE ${GPUX_ONNXRUNTIME_INCLUDE})
target_compile_definitions(gpux_onnxruntime_headers INTERFACE ORT_API_MANUAL_INIT)
