#include "runtime/loading/session_of_file.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/log.h"
#include "gpux/error.h"
#include "onnx/included_data.h"
#include "onnx/string_locale.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;

// What ONNX Runtime says where std::locale does not know the name.
constexpr std::string_view missing_locale = "Failed to construct locale with name";
constexpr std::string_view locale_of_all_machines = "C.UTF-8";

// The file's, or that of the model which replaces its content.
ort::Session open(const fs::path& file, const std::optional<std::string>& model, const ort::SessionSettings& settings) {
  if (!model) return ort::Session::from_file(file, settings);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return ort::Session::from_memory(std::as_bytes(std::span(*model)), folder, settings);
}

std::optional<std::string> with_known_locale(const fs::path& file, const std::optional<std::string>& model) {
  if (model) return onnx::with_locale(*model, locale_of_all_machines);
  const MappedFile content(file);
  return onnx::with_locale(content.text(), locale_of_all_machines);
}

}  // namespace

ort::Session session_of_file(const fs::path& file, const ort::SessionSettings& settings) {
  const std::optional<std::string> model = onnx::with_included_data(file);
  try {
    return open(file, model, settings);
  } catch (const Error& error) {
    if (error.message().find(missing_locale) == std::string::npos) throw;
    const std::optional<std::string> changed = with_known_locale(file, model);
    if (!changed) throw;
    log::info("{}: the locale of its StringNormalizer is not installed; {} is used", file.string(),
              locale_of_all_machines);
    return open(file, changed, settings);
  }
}

}  // namespace gpux::runtime
