#include "runtime/loading/session_of_file.h"

#include <span>

#include "onnx/included_data.h"

namespace gpux::runtime {

ort::Session session_of_file(const std::filesystem::path& file, const ort::SessionSettings& settings) {
  const auto model = onnx::with_included_data(file);
  if (!model) return ort::Session::from_file(file, settings);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return ort::Session::from_memory(std::as_bytes(std::span(*model)), folder, settings);
}

}  // namespace gpux::runtime
