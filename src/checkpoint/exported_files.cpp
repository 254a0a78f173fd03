#include "checkpoint/exported_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format_message.h"

namespace gpux {
namespace {

enum class Made { for_all, for_x86, for_arm };

struct Kind {
  std::string_view name;  // without "model_"
  const char* precision;
  Made made;
};

// Those of one precision in the order in which a processor wants them.
constexpr std::array kinds{
    Kind{"fp16", "fp16", Made::for_all},         Kind{"float16", "fp16", Made::for_all},
    Kind{"qint8_arm64", "int8", Made::for_arm},  Kind{"qint8_avx512_vnni", "int8", Made::for_x86},
    Kind{"qint8_avx512", "int8", Made::for_x86}, Kind{"quantized", "int8", Made::for_all},
    Kind{"int8", "int8", Made::for_all},         Kind{"qint8", "int8", Made::for_all},
    Kind{"q8", "int8", Made::for_all},           Kind{"uint8", "int8", Made::for_all},
    Kind{"quint8", "int8", Made::for_all},       Kind{"quint8_avx2", "int8", Made::for_x86},
};

// "fp16" of "onnx/model_FP16.onnx"; empty where it is not called after the model.
std::string kind_of(const std::string& file) {
  std::string stem = std::filesystem::path(file).stem().string();
  std::transform(stem.begin(), stem.end(), stem.begin(),
                 [](unsigned char letter) { return letter == '-' ? '_' : static_cast<char>(std::tolower(letter)); });
  constexpr std::string_view model = "model_";
  return stem.starts_with(model) ? stem.substr(model.size()) : std::string();
}

Message reason_against(const Kind* kind, const std::string& file, const std::string& name, bool is_x86,
                       bool adds_bytes_exactly) {
  if (kind == nullptr && name.empty() && std::filesystem::path(file).stem() == "model") {
    return Message("another model.onnx is the model");
  }
  if (kind == nullptr) {
    const bool is_optimized = name.size() == 2 && name.front() == 'o' && name.back() >= '1' && name.back() <= '4';
    return Message(is_optimized ? "ONNX Runtime does again what was done to it"
                                : "its name is that of no precision which variants can have (int8, fp16)");
  }
  if (kind->made == (is_x86 ? Made::for_arm : Made::for_x86)) return Message("it was made for other processors");
  if (kind->precision == std::string_view("int8") && !adds_bytes_exactly) {
    return format_message(
        "its weights may have 8 bits, which this processor does not add up exactly; {} int8 makes one that it does",
        setting_named("quantize"));
  }
  return {};
}

}  // namespace

std::vector<std::string> exported_files_in(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const fs::path& place : {folder, folder / "onnx"}) {
    std::error_code error;
    for (fs::directory_iterator i(place, error), end; !error && i != end; i.increment(error)) {
      if (i->path().extension() != ".onnx") continue;
      files.push_back(i->path().lexically_relative(folder).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

ExportedFiles sort_exported_files(std::span<const std::string> files, bool is_x86, bool adds_bytes_exactly) {
  ExportedFiles sorted;
  std::vector<std::pair<const Kind*, std::string>> known;
  for (const std::string& file : files) {
    const std::string name = kind_of(file);
    const auto* const kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& one) { return one.name == name; });
    const bool is_known = kind != kinds.end();
    Message reason = reason_against(is_known ? kind : nullptr, file, name, is_x86, adds_bytes_exactly);
    if (reason.empty()) {
      known.emplace_back(kind, file);
    } else {
      sorted.left_out.push_back({file, std::move(reason)});
    }
  }
  std::stable_sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [kind, file] : known) {
    const bool is_half = kind->precision == std::string_view("fp16");
    sorted.variants.push_back({std::move(file), kind->precision, is_half ? 16U : 8U});
  }
  return sorted;
}

}  // namespace gpux
