#include "importer/weights_of.h"

#include <system_error>

#include "base/format_message.h"
#include "checkpoint/safetensors.h"
#include "gpux/error.h"

namespace gpux::importer {

namespace fs = std::filesystem;

fs::path weights_of(const fs::path& folder, const fs::path& transformer) {
  std::error_code unreadable;
  for (const char* file : {"model.onnx", "onnx/model.onnx"}) {
    if (fs::exists(transformer / file, unreadable)) {
      throw Error(ErrorCode::usage,
                  format_message("'{}' holds {} already: it can be used as it is", file_at(folder), file));
    }
  }
  if (const auto weights = checkpoint::safetensors_in(transformer)) return *weights;
  const bool is_torch = fs::exists(transformer / "pytorch_model.bin", unreadable);
  throw Error(ErrorCode::not_found, format_message("'{}' has no model.safetensors{}", file_at(folder),
                                                   is_torch ? "; pytorch_model.bin holds code and is not read" : ""));
}

}  // namespace gpux::importer
