#include "runtime/loading/model_session.h"

#include <span>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/log.h"
#include "gpux/error.h"
#include "onnx/string_locale.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;

// What ONNX Runtime says where std::locale does not know the name.
constexpr std::string_view missing_locale = "Failed to construct locale with name";
constexpr std::string_view locale_of_all_machines = "C.UTF-8";

}  // namespace

ort::Session session_of_file(const fs::path& file, const ort::SessionSettings& settings) {
  try {
    return ort::Session::from_file(file, settings);
  } catch (const Error& error) {
    if (error.message().find(missing_locale) == std::string::npos) throw;
    const MappedFile content(file);
    const auto model = onnx::with_locale(content.text(), locale_of_all_machines);
    if (!model) throw;
    log::info("{}: the locale of its StringNormalizer is not installed; {} is used", file.string(),
              locale_of_all_machines);
    const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    return ort::Session::from_memory(std::as_bytes(std::span(*model)), folder, settings);
  }
}

}  // namespace gpux::runtime
