#include "registry/hub/file_choice.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "importer/exported_files.h"

namespace gpux::registry {
namespace {

std::string_view folder_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view base_of(std::string_view name) {
  return name.substr(name.rfind('/') + 1);
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "1_Pooling": a folder of a module of sentence-transformers.
bool is_module_folder(std::string_view folder) {
  return is_digits(folder.substr(0, folder.find('_'))) && folder.find('_') != std::string_view::npos &&
         folder.find('/') == std::string_view::npos;
}

bool is_model_folder(std::string_view folder) {
  return folder.empty() || is_module_folder(folder);
}

bool is_onnx_file(std::string_view name) {
  return name.ends_with(".onnx") && (folder_of(name).empty() || folder_of(name) == "onnx");
}

/// "model.onnx_data", "model.onnx_data_1", "model.onnx.data", "model.data" of "model.onnx", in the same folder.
bool is_external_data_of(std::string_view name, std::string_view onnx_file) {
  if (folder_of(name) != folder_of(onnx_file)) return false;
  const std::string_view base = base_of(name), model = base_of(onnx_file);
  const std::string_view stem = model.substr(0, model.size() - std::string_view(".onnx").size());
  return base.starts_with(std::string(model) + "_data") || base.starts_with(std::string(model) + ".data") ||
         base == std::string(stem) + ".data" || base == std::string(stem) + ".weights" ||
         base == std::string(stem) + ".bin";
}

/// "model-00001-of-00002.safetensors"
bool is_shard(std::string_view base) {
  constexpr std::string_view prefix = "model-", middle = "-of-", suffix = ".safetensors";
  if (!base.starts_with(prefix) || !base.ends_with(suffix)) return false;
  const std::string_view numbers = base.substr(prefix.size(), base.size() - prefix.size() - suffix.size());
  const std::size_t at = numbers.find(middle);
  return at != std::string_view::npos && is_digits(numbers.substr(0, at)) &&
         is_digits(numbers.substr(at + middle.size()));
}

bool is_safetensors(std::string_view name) {
  const std::string_view base = base_of(name);
  return is_model_folder(folder_of(name)) &&
         (base == "model.safetensors" || base == "model.safetensors.index.json" || is_shard(base));
}

/// Heads of BGE-M3, beside its encoder.
bool is_head(std::string_view name) {
  return name == "sparse_linear.safetensors" || name == "colbert_linear.safetensors";
}

/// The same, pickled: what it would be as safetensors; else empty.
std::string as_head(std::string_view name) {
  if (name != "sparse_linear.pt" && name != "colbert_linear.pt") return {};
  return std::string(name.substr(0, name.size() - std::string_view("pt").size())) + "safetensors";
}

/// The file with the image tower of a text tower.
std::string image_tower_of(std::string_view text_tower) {
  return folder_of(text_tower).empty() ? "vision_model.onnx"
                                       : std::string(folder_of(text_tower)) + "/vision_model.onnx";
}

// Of other frameworks, or of training.
bool is_foreign_json(std::string_view base) {
  return base.ends_with(".index.json") || base == "trainer_state.json" || base == "all_results.json" ||
         base == "train_results.json" || base == "eval_results.json" || base == "quantize_config.json" ||
         base == "openvino_config.json";
}

bool is_settings_file(std::string_view name) {
  const std::string_view folder = folder_of(name), base = base_of(name);
  if (folder == "additional_chat_templates") return base.ends_with(".jinja");
  if (!is_model_folder(folder)) return false;
  if (base.ends_with(".json")) return !is_foreign_json(base);
  if (base.ends_with(".txt")) return base.starts_with("vocab") || base == "merges.txt";
  return base.ends_with(".model") || base.ends_with(".jinja") || base == "artifact.metadata";
}

bool is_pickled(std::string_view name) {
  const std::string_view base = base_of(name);
  constexpr std::array<std::string_view, 6> ends{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return base != "training_args.bin" && base != "optimizer.pt" && base != "scheduler.pt" &&
         std::ranges::any_of(ends, [&](std::string_view end) { return base.ends_with(end); });
}

std::vector<std::string> matching(std::span<const std::string> names, bool (*matches)(std::string_view)) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found), matches);
  return found;
}

std::string listed(std::vector<std::string> names) {
  constexpr std::size_t limit = 12;
  const std::size_t count = names.size();
  names.resize(std::min(count, limit));
  return join(names) + (count > limit ? fmt::format(" and {} more", count - limit) : "");
}

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string default_onnx_file(std::span<const std::string> names) {
  for (const char* name : {"text_model.onnx", "onnx/text_model.onnx"}) {
    if (contains(names, name) && contains(names, image_tower_of(name))) return name;
  }
  for (const char* name : {"model.onnx", "onnx/model.onnx"}) {
    if (contains(names, name)) return name;
  }
  return {};
}

std::string file_of_precision(std::span<const std::string> onnx_files, const FileRequest& request,
                              std::string_view repository) {
  const ExportedFiles sorted = sort_exported_files(onnx_files, request.is_x86, request.adds_bytes_exactly);
  std::set<std::string> precisions;
  for (const ExportedVariant& variant : sorted.variants) {
    if (variant.precision == request.precision) return variant.file;
    precisions.insert(variant.precision);
  }
  if (!default_onnx_file(onnx_files).empty()) precisions.insert("fp32");
  const std::vector<std::string> known(precisions.begin(), precisions.end());
  const std::string found = onnx_files.empty()
                                ? "it has no ONNX files, and conversion keeps the precision of its weights"
                                : fmt::format("it has ONNX files in {}; --file names any of {}",
                                              known.empty() ? "no precision that gpux knows" : join(known),
                                              listed({onnx_files.begin(), onnx_files.end()}));
  throw Error(ErrorCode::not_found,
              fmt::format("{} has no ONNX file in {} for this processor: {}", repository, request.precision, found));
}

[[noreturn]] void refuse_weights(std::span<const std::string> names, std::string_view repository) {
  const std::vector<std::string> pickled = matching(names, is_pickled);
  if (!pickled.empty()) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("{} has its weights only as {}: pickled files can run code when they are read, so gpux does "
                    "not; it reads ONNX files and safetensors (save_pretrained of transformers writes these)",
                    repository, listed(pickled)));
  }
  const auto ends_with_gguf = [](std::string_view name) { return name.ends_with(".gguf"); };
  const std::vector<std::string> gguf = matching(names, ends_with_gguf);
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} has {}: gpux reads ONNX files (*.onnx, onnx/*.onnx) and model.safetensors", repository,
                          gguf.empty() ? "no weights that gpux reads" : "its weights only as GGUF, " + listed(gguf)));
}

/// The ONNX file that is the model; empty where safetensors are.
std::string choose_model_file(std::span<const std::string> names, const FileRequest& request,
                              std::string_view repository) {
  if (!request.file.empty() && !request.precision.empty()) {
    throw Error(ErrorCode::usage, "--file and --precision both choose the ONNX file: use one of them");
  }
  const std::vector<std::string> onnx_files = matching(names, is_onnx_file);
  if (!request.file.empty()) {
    if (!contains(names, request.file)) {
      const auto is_any_onnx = [](std::string_view name) { return name.ends_with(".onnx"); };
      const std::vector<std::string> all = matching(names, is_any_onnx);
      throw Error(ErrorCode::not_found, fmt::format("{} has no file {}; its ONNX files: {}", repository,
                                                    in_quotes(request.file), all.empty() ? "none" : listed(all)));
    }
    if (!request.file.ends_with(".onnx")) {
      throw Error(ErrorCode::usage, fmt::format("--file {} is no ONNX file; safetensors are converted without --file",
                                                in_quotes(request.file)));
    }
    return request.file;
  }
  const std::string standard = default_onnx_file(names);
  if (!request.precision.empty() && (request.precision != "fp32" || standard.empty())) {
    return file_of_precision(onnx_files, request, repository);
  }
  if (!standard.empty()) return standard;
  if (!matching(names, is_safetensors).empty()) return {};
  if (onnx_files.size() == 1) return onnx_files.front();
  if (onnx_files.empty()) refuse_weights(names, repository);
  throw Error(ErrorCode::usage, fmt::format("{} has {} ONNX files and no model.onnx: choose one with --file: {}",
                                            repository, onnx_files.size(), listed(onnx_files)));
}

}  // namespace

FileChoice choose_files(std::span<const std::string> names, const FileRequest& request, std::string_view repository) {
  FileChoice choice{
      .model_file = choose_model_file(names, request, repository), .files = {}, .weights = {}, .left_out = {}};
  const bool converts = choice.model_file.empty();
  std::set<std::string> onnx_files{choice.model_file};
  if (base_of(choice.model_file) == "text_model.onnx" && contains(names, image_tower_of(choice.model_file))) {
    onnx_files.insert(image_tower_of(choice.model_file));
  }
  const auto is_of_onnx = [&](const std::string& name) {
    return std::ranges::any_of(
        onnx_files, [&](const std::string& file) { return name == file || is_external_data_of(name, file); });
  };
  std::set<std::string> files;
  for (const std::string& name : names) {
    const bool is_module_weight = is_safetensors(name) && !folder_of(name).empty();
    const bool is_model = converts ? is_safetensors(name) || is_head(name) : is_of_onnx(name);
    if (is_model || is_module_weight || is_settings_file(name)) files.insert(name);
  }
  // A dense layer of sentence-transformers whose weights are pickled alone would be missing.
  for (const std::string& name : names) {
    const std::string_view folder = folder_of(name);
    const bool is_module_weight = is_module_folder(folder) && base_of(name) == "pytorch_model.bin";
    if (is_module_weight && !files.contains(std::string(folder) + "/model.safetensors")) {
      refuse_weights(std::span(&name, 1), repository);
    }
  }
  for (const std::string& name : names) {
    const std::string head = converts ? as_head(name) : std::string();
    if (!head.empty() && !files.contains(head)) choice.left_out.push_back(name);
  }
  choice.files.assign(files.begin(), files.end());
  std::ranges::copy_if(choice.files, std::back_inserter(choice.weights), [&](const std::string& name) {
    return name.ends_with(".safetensors") || (!converts && !is_settings_file(name) && is_of_onnx(name));
  });
  return choice;
}

}  // namespace gpux::registry
