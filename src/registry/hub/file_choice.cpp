#include "registry/hub/file_choice.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/spelling.h"
#include "checkpoint/exported_files.h"
#include "checkpoint/gguf_name.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/module_list.h"
#include "checkpoint/safetensors.h"
#include "gpux/error.h"
#include "registry/hub/hub_reference.h"

namespace gpux::registry {

using checkpoint::gguf_name_of;
using checkpoint::GgufName;
using checkpoint::is_gguf;

namespace {

std::string_view folder_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view base_of(std::string_view name) {
  return name.substr(name.rfind('/') + 1);
}

constexpr std::string_view whole_weights = "model.safetensors", weight_index = "model.safetensors.index.json";

std::string in_folder(std::string_view folder, std::string_view base) {
  return folder.empty() ? std::string(base) : fmt::format("{}/{}", folder, base);
}

bool is_model_folder(std::string_view folder, const RepositoryLayout& layout) {
  return folder.empty() || layout.module_folders.contains(folder);
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

/// Whole, or an index of parts; which of both counts where a folder has them is not looked at.
bool is_weight_file(std::string_view name) {
  const std::string_view base = base_of(name);
  return base == whole_weights || base == weight_index;
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

bool is_settings_file(std::string_view name, const RepositoryLayout& layout) {
  const std::string_view folder = folder_of(name), base = base_of(name);
  if (folder == "additional_chat_templates") return base.ends_with(".jinja");
  if (!is_model_folder(folder, layout)) return false;
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

// The first part stands for a model in parts. Beside models lie the projectors of their images, and what their
// quantization was decided by.
bool is_gguf_model(std::string_view name) {
  if (!is_gguf(name) || gguf_name_of(name).part != 1) return false;
  const std::string base = upper(base_of(name));
  return !base.starts_with("MMPROJ") && base.find("IMATRIX") == std::string::npos;
}

/// All parts of a model. Error not_found where one is missing.
std::vector<std::string> parts_of(const std::string& first, std::span<const std::string> names,
                                  std::string_view repository) {
  const GgufName wanted = gguf_name_of(first);
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (!is_gguf(name)) continue;
    const GgufName other = gguf_name_of(name);
    if (other.model == wanted.model && other.parts == wanted.parts) parts.push_back(name);
  }
  if (parts.size() == wanted.parts) return parts;
  throw Error(ErrorCode::not_found,
              fmt::format("{} has {} of the {} parts of {}", repository, parts.size(), wanted.parts, in_quotes(first)));
}

/// "Q4_K_M" of "Llama-3.2-1B-Instruct-Q4_K_M.gguf", in upper case; empty where the name has none.
std::string quantization_of(std::string_view name) {
  const std::string stem = upper(base_of(gguf_name_of(name).model));
  if (names_quantization(stem)) return stem;
  std::string found;
  // "UD-Q4_K_XL" has a separator itself.
  for (std::size_t at = stem.find_last_of("-."); at != std::string::npos && at > 0;
       at = stem.find_last_of("-.", at - 1)) {
    const std::string end = stem.substr(at + 1);
    if (!names_quantization(end)) break;
    found = end;
  }
  return found;
}

template <typename Matches>
std::vector<std::string> matching(std::span<const std::string> names, const Matches& matches) {
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
  const Message found = onnx_files.empty()
                            ? Message{"it has no ONNX files, and conversion keeps the precision of its weights"}
                            : format_message("it has ONNX files in {}; {} names any of {}",
                                             known.empty() ? "no precision that gpux knows" : join(known),
                                             setting_named("file"), listed({onnx_files.begin(), onnx_files.end()}));
  throw Error(ErrorCode::not_found,
              format_message("{} has no ONNX file in {} for this processor: {}", repository, request.precision, found));
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
  const std::vector<std::string> gguf = matching(names, is_gguf);
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} has {}: gpux reads ONNX files (*.onnx, onnx/*.onnx), model.safetensors and GGUF files",
                          repository, gguf.empty() ? "no weights that gpux reads" : listed(gguf)));
}

std::string quantizations_of(std::span<const std::string> gguf_files) {
  std::set<std::string> found;
  for (const std::string& file : gguf_files) {
    const std::string quantization = quantization_of(file);
    found.insert(quantization.empty() ? file : quantization);
  }
  return listed({found.begin(), found.end()});
}

/// The GGUF file with that quantization; empty: Q4_K_M, as Ollama has it, or the only one.
std::string choose_gguf_file(std::span<const std::string> names, const std::string& quantization,
                             std::string_view repository) {
  const std::vector<std::string> files = matching(names, is_gguf_model);
  if (files.empty() && quantization.empty()) refuse_weights(names, repository);
  if (files.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{0} has no GGUF file of a model: {1} names a quantization; @{1} names a revision",
                            repository, quantization));
  }
  if (quantization.empty() && files.size() == 1) return files.front();
  const std::string wanted = upper(quantization.empty() ? "Q4_K_M" : quantization);
  const std::vector<std::string> found =
      matching(files, [&](std::string_view file) { return quantization_of(file) == wanted; });
  if (found.size() == 1) return found.front();
  if (!found.empty()) {
    throw Error(ErrorCode::usage, format_message("{} has several GGUF files in {}: choose one with {}: {}", repository,
                                                 wanted, setting_named("file"), listed(found)));
  }
  if (!quantization.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{} has no GGUF file in {}; it has {}", repository, wanted, quantizations_of(files)));
  }
  throw Error(ErrorCode::usage, fmt::format("{0} has {1} GGUF files: choose one, as {0}:QUANTIZATION: {2}", repository,
                                            files.size(), quantizations_of(files)));
}

/// The file that is the model; both empty where safetensors are.
struct ModelFile {
  std::string onnx, gguf;
};

ModelFile choose_named_file(std::span<const std::string> names, const std::string& file, std::string_view repository) {
  if (!contains(names, file)) {
    const auto is_model = [](std::string_view name) { return name.ends_with(".onnx") || is_gguf(name); };
    const std::vector<std::string> all = matching(names, is_model);
    throw Error(ErrorCode::not_found, fmt::format("{} has no file {}; its ONNX and GGUF files: {}", repository,
                                                  in_quotes(file), all.empty() ? "none" : listed(all)));
  }
  if (file.ends_with(".onnx")) return {.onnx = file, .gguf = {}};
  if (is_gguf_model(file)) return {.onnx = {}, .gguf = file};
  throw Error(ErrorCode::usage, format_message("{} {} is no ONNX file, nor the GGUF file of a model, in parts the "
                                               "first one; safetensors are converted without {}",
                                               setting_named("file"), in_quotes(file), setting_named("file")));
}

/// `may_have_weights`: whether a folder of the repository is one that safetensors of the model are in.
template <typename MayHaveWeights>
ModelFile choose_model_file(std::span<const std::string> names, const FileRequest& request, std::string_view repository,
                            const MayHaveWeights& may_have_weights) {
  if (!request.file.empty() && !request.precision.empty()) {
    throw Error(ErrorCode::usage, format_message("{} and {} both choose the ONNX file: use one of them",
                                                 setting_named("file"), setting_named("precision")));
  }
  if (!request.quantization.empty() && (!request.file.empty() || !request.precision.empty())) {
    throw Error(ErrorCode::usage,
                format_message("{}:{} chooses a GGUF file: it is used without {} and {}", repository,
                               request.quantization, setting_named("file"), setting_named("precision")));
  }
  if (!request.quantization.empty()) return {{}, choose_gguf_file(names, request.quantization, repository)};
  if (!request.file.empty()) return choose_named_file(names, request.file, repository);
  const std::vector<std::string> onnx_files = matching(names, is_onnx_file);
  const std::string standard = default_onnx_file(names);
  if (!request.precision.empty() && (request.precision != "fp32" || standard.empty())) {
    return {file_of_precision(onnx_files, request, repository), {}};
  }
  if (!standard.empty()) return {standard, {}};
  const auto has_weights = [&](const std::string& name) {
    return is_weight_file(name) && may_have_weights(folder_of(name));
  };
  if (std::ranges::any_of(names, has_weights)) return {};
  if (onnx_files.size() == 1) return {onnx_files.front(), {}};
  if (onnx_files.empty()) return {{}, choose_gguf_file(names, {}, repository)};
  throw Error(ErrorCode::usage,
              format_message("{} has {} ONNX files and no model.onnx: choose one with {}: {}", repository,
                             onnx_files.size(), setting_named("file"), listed(onnx_files)));
}

}  // namespace

std::string find_model_file(std::span<const std::string> names, const FileRequest& request,
                            std::string_view repository) {
  ModelFile model = choose_model_file(names, request, repository, [](std::string_view /*folder*/) { return true; });
  return model.gguf.empty() ? std::move(model.onnx) : std::move(model.gguf);
}

RepositoryLayout read_layout(std::span<const std::string> names, const FileRequest& request,
                             std::string_view repository, const std::function<std::string(const std::string&)>& read) {
  RepositoryLayout layout;
  constexpr const char* modules_file = "modules.json";
  if (contains(names, modules_file)) {
    const JsonSettings modules(read(modules_file), modules_file, JsonSettings::Json::value_t::array);
    for (const checkpoint::Module& module : checkpoint::read_modules(modules)) {
      if (!module.folder.empty()) layout.module_folders.insert(module.folder);
    }
  }
  const ModelFile chosen = choose_model_file(names, request, repository,
                                             [&](std::string_view folder) { return is_model_folder(folder, layout); });
  if (!chosen.onnx.empty() || !chosen.gguf.empty()) return layout;
  const std::set<std::string_view> all(names.begin(), names.end());
  std::vector<std::string> folders(layout.module_folders.begin(), layout.module_folders.end());
  folders.emplace_back();
  for (const std::string& folder : folders) {
    const std::string index = in_folder(folder, weight_index);
    if (!all.contains(index) || all.contains(in_folder(folder, whole_weights))) continue;
    for (const std::string& part : checkpoint::parts_of_index(read(index), index)) {
      const std::string name = in_folder(folder, part);
      if (!name.ends_with(".safetensors")) {
        throw Error(ErrorCode::invalid_model, fmt::format("{}: {} names {}; accepted: files that end in .safetensors",
                                                          repository, index, in_quotes(name)));
      }
      if (!all.contains(name)) {
        throw Error(ErrorCode::not_found,
                    fmt::format("{} has no file {}, which its {} names", repository, in_quotes(name), index));
      }
      layout.weight_parts.insert(name);
    }
  }
  return layout;
}

FileChoice choose_files(std::span<const std::string> names, const FileRequest& request, std::string_view repository) {
  const RepositoryLayout& layout = request.layout;
  ModelFile model = choose_model_file(names, request, repository,
                                      [&](std::string_view folder) { return is_model_folder(folder, layout); });
  if (!model.gguf.empty()) {
    const std::vector<std::string> parts = parts_of(model.gguf, names, repository);
    return {.model_file = {}, .gguf_file = model.gguf, .files = parts, .weights = parts, .left_out = {}};
  }
  FileChoice choice{.model_file = std::move(model.onnx), .gguf_file = {}, .files = {}, .weights = {}, .left_out = {}};
  const bool converts = choice.model_file.empty();
  const std::set<std::string_view> all(names.begin(), names.end());
  const auto is_safetensors = [&](const std::string& name) {
    const bool has_whole = all.contains(in_folder(folder_of(name), whole_weights));
    const bool is_index = base_of(name) == weight_index;
    return layout.weight_parts.contains(name) ||
           (is_weight_file(name) && is_model_folder(folder_of(name), layout) && !(is_index && has_whole));
  };
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
    if (is_model || is_module_weight || is_settings_file(name, layout)) files.insert(name);
  }
  const auto has_safetensors_in = [&](std::string_view folder) {
    return files.contains(in_folder(folder, whole_weights)) || files.contains(in_folder(folder, weight_index));
  };
  // A dense layer of sentence-transformers whose weights are pickled alone would be missing.
  for (const std::string& name : names) {
    const std::string_view folder = folder_of(name);
    const bool is_module_weight = layout.module_folders.contains(folder) && base_of(name) == "pytorch_model.bin";
    if (is_module_weight && !has_safetensors_in(folder)) {
      refuse_weights(std::span(&name, 1), repository);
    }
  }
  for (const std::string& name : names) {
    const std::string head = converts ? as_head(name) : std::string();
    if (!head.empty() && !files.contains(head)) choice.left_out.push_back(name);
  }
  choice.files.assign(files.begin(), files.end());
  std::ranges::copy_if(choice.files, std::back_inserter(choice.weights), [&](const std::string& name) {
    return name.ends_with(".safetensors") || (!converts && !is_settings_file(name, layout) && is_of_onnx(name));
  });
  return choice;
}

OtherWeights other_weights(std::span<const std::string> names, const FileRequest& request,
                           const std::string& model_file) {
  const std::vector<std::string> onnx_files = matching(names, is_onnx_file);
  std::set<std::string> precisions, quantizations;
  for (const ExportedVariant& variant :
       sort_exported_files(onnx_files, request.is_x86, request.adds_bytes_exactly).variants) {
    if (variant.file != model_file && variant.precision != request.precision) precisions.insert(variant.precision);
  }
  const std::string standard = default_onnx_file(names);
  if (!standard.empty() && standard != model_file) precisions.insert("fp32");
  for (const std::string& file : matching(names, is_gguf_model)) {
    const std::string quantization = quantization_of(file);
    if (file != model_file && !quantization.empty()) quantizations.insert(quantization);
  }
  return {.precisions = {precisions.begin(), precisions.end()},
          .quantizations = {quantizations.begin(), quantizations.end()}};
}

}  // namespace gpux::registry
