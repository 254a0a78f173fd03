#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "importer/import_model.h"

namespace gpux::test {

inline std::filesystem::path task_data(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/pipeline/data" / name;
}

/// A folder as people get them of the model that scripts/references/task-references wrote under the name, with
/// safetensors.
inline std::filesystem::path write_task_folder(const TemporaryFolder& folder, const std::string& name) {
  for (const char* file : {"config.json", "model.safetensors", "tokenizer_config.json"}) {
    folder.write(name + "/" + file, read_file(task_data(name) / file));
  }
  folder.write(name + "/tokenizer.json", read_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json"));
  return folder.path() / name;
}

/// The same as ONNX, by gpux's own import.
inline std::filesystem::path import_task_folder(const TemporaryFolder& folder, const std::string& name) {
  const std::filesystem::path made = folder.path() / (name + "-onnx");
  if (!std::filesystem::exists(made)) (void)importer::import_model(write_task_folder(folder, name), made);
  return made;
}

}  // namespace gpux::test
