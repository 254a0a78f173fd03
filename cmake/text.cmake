# The tokenizers and chat templates: a Rust crate of this project behind a C header, as one archive. Built by cargo from the sources that
# scripts/setup fetched, once for all presets.
find_program(GPUX_CARGO cargo REQUIRED)
set(crate_sources)
if(EXISTS ${GPUX_DEPS_DIR}/crates)
  set(crate_sources --config source.crates-io.replace-with="fetched"
                    --config source.fetched.directory="${GPUX_DEPS_DIR}/crates")
endif()
set(crate ${PROJECT_SOURCE_DIR}/rust/gpux-text)
set(GPUX_CARGO_TARGET_DIR ${PROJECT_SOURCE_DIR}/build/cargo CACHE PATH "Where cargo builds")
file(GLOB_RECURSE crate_files CONFIGURE_DEPENDS ${crate}/src/*.rs)
set(archive ${GPUX_CARGO_TARGET_DIR}/release/libgpux_text.a)

add_custom_command(
  OUTPUT ${archive}
  COMMAND ${GPUX_CARGO} build --release --locked --offline --quiet ${crate_sources} --manifest-path ${crate}/Cargo.toml
          --target-dir ${GPUX_CARGO_TARGET_DIR}
  DEPENDS ${crate}/Cargo.toml ${crate}/Cargo.lock ${crate_files}
  WORKING_DIRECTORY ${crate}
  COMMENT "Building the text library with cargo"
  VERBATIM)
add_custom_target(gpux_text_archive DEPENDS ${archive})

add_library(gpux_text_library INTERFACE)
target_include_directories(gpux_text_library INTERFACE ${crate})
target_link_libraries(gpux_text_library INTERFACE ${archive} pthread dl m)
add_dependencies(gpux_text_library gpux_text_archive)
