#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/locate.h"

namespace gpux {

/// Tells whether the files behind a model have changed. One thread at a time.
class PackageFingerprints {
 public:
  /// Fingerprint of the model's files. Differs when one of the files that a load of the model reads has another
  /// content, size or time, appears or goes: the ONNX files with their external data, gpux.yml with what it names, the
  /// tokenizer and the settings beside it. Of a stored model it is the package's digest. Does not throw for files that
  /// are missing or damaged.
  std::string of(const LocatedModel& model);

 private:
  struct ExternalData {
    std::string stamp;  // of the ONNX file that was read
    std::vector<std::filesystem::path> files;
  };

  void append_onnx(std::string& out, const std::filesystem::path& file);

  std::map<std::filesystem::path, ExternalData> external_data_;
};

}  // namespace gpux
