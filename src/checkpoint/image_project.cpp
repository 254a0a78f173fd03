#include "checkpoint/image_project.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/format_message.h"
#include "checkpoint/class_labels.h"
#include "checkpoint/image_preprocessing.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/setting_files.h"
#include "gpux/error.h"
#include "onnx/model_file.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t shown_labels = 5;

// A YAML scalar in double quotes; a dollar sign would begin a variable.
std::string quoted(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '$') escaped += '$';
    escaped += c;
  }
  return nlohmann::json(escaped).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Relative to the folder; empty where there is none.
std::string found_in(const fs::path& folder, const char* name) {
  std::error_code unreadable;
  for (const std::string& place : {std::string(name), "onnx/" + std::string(name)}) {
    if (fs::is_regular_file(folder / place, unreadable)) return place;
  }
  return {};
}

bool takes_image(const Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(), [](const SignatureEntry& entry) {
    return entry.type.kind == ValueKind::tensor && entry.type.dimensions && entry.type.dimensions->size() == 4;
  });
}

void add_labels(const JsonSettings& config, const Signature& signature, ImageProject& project) {
  if (!architecture_in(config).ends_with("ForImageClassification")) return;
  const auto logits = std::find_if(signature.outputs.begin(), signature.outputs.end(),
                                   [](const SignatureEntry& entry) { return entry.name == "logits"; });
  if (logits == signature.outputs.end() || logits->type.kind != ValueKind::tensor) return;
  project.labels = class_labels_in(config);
  if (project.labels.empty()) return;
  project.labelled_output = logits->name;
  project.labelled_type = std::string(to_string(logits->type.element));
  project.is_multi_label = config.text("problem_type") == "multi_label_classification";
}

// Of the only ONNX file.
fs::path only_file(const fs::path& folder) {
  if (const std::string model = found_in(folder, "model.onnx"); !model.empty()) return model;
  std::vector<fs::path> files;
  std::error_code unreadable;
  for (fs::directory_iterator i(folder, unreadable), end; !unreadable && i != end; i.increment(unreadable)) {
    if (i->path().extension() == ".onnx") files.push_back(i->path().filename());
  }
  return files.size() == 1 ? files.front() : fs::path();
}

std::optional<ImageProject> two_towers(const fs::path& folder, ImageProject project, const std::string& text,
                                       const std::string& image) {
  if (text.empty() || image.empty()) {
    throw Error(ErrorCode::not_found,
                format_message("'{}' has {}, and no {}: a model of texts and images needs both", file_at(folder),
                               text.empty() ? image : text, text.empty() ? "text_model.onnx" : "vision_model.onnx"));
  }
  project.source = text;
  project.image_tower = image;
  project.zero_shot = read_zero_shot_scale(folder);
  return project;
}

}  // namespace

bool has_two_towers(std::string_view model_type) {
  return model_type == "clip" || model_type == "siglip";
}

std::string project_text(const ImageProject& project) {
  std::string yaml = fmt::format("name: {}\nmodel:\n  source: {}\n", quoted(project.name), quoted(project.source));
  if (!project.image_tower.empty()) yaml += fmt::format("  image_tower: {}\n", quoted(project.image_tower));
  if (!project.files.empty()) {
    yaml += "  files:\n";
    for (const std::string& file : project.files) yaml += fmt::format("    - {}\n", quoted(file));
  }
  yaml += yaml_of(project.recipe);
  if (project.zero_shot) {
    const ZeroShotScale& scale = *project.zero_shot;
    yaml += fmt::format("zero_shot: {{logit_scale: {}, logit_bias: {}, activation: {}}}\n", scale.logit_scale,
                        scale.logit_bias, scale.is_sigmoid ? "sigmoid" : "softmax");
  }
  if (project.labelled_output.empty()) return yaml;
  yaml += fmt::format("outputs:\n  - name: {}\n    type: {}\n    activation: {}\n    top_k: {}\n    labels:\n",
                      quoted(project.labelled_output), project.labelled_type,
                      project.is_multi_label ? "sigmoid" : "softmax", std::min(project.labels.size(), shown_labels));
  for (const std::string& label : project.labels) yaml += fmt::format("      - {}\n", quoted(label));
  return yaml;
}

std::optional<ZeroShotScale> read_zero_shot_scale(const fs::path& folder) {
  const std::string model_type = JsonSettings(folder / "config.json").text("model_type");
  const auto file = safetensors_in(folder);
  if (!has_two_towers(model_type) || !file) return std::nullopt;
  const Safetensors weights(*file);
  ZeroShotScale scale;
  scale.is_sigmoid = model_type == "siglip";
  const auto scalar = [&](const char* name) {
    return static_cast<double>(weights.floats(name, weights.shape(name)).at(0));
  };
  scale.logit_scale = std::exp(scalar("logit_scale"));
  if (scale.is_sigmoid) scale.logit_bias = scalar("logit_bias");
  return scale;
}

std::optional<ImageProject> read_image_project(const fs::path& folder) {
  if (!has_image_preprocessing(folder)) return std::nullopt;
  const std::string text = found_in(folder, "text_model.onnx");
  const std::string image = found_in(folder, "vision_model.onnx");
  const fs::path only = text.empty() && image.empty() ? only_file(folder) : fs::path();
  if (text.empty() && image.empty() && only.empty()) return std::nullopt;
  const JsonSettings config(folder / "config.json");
  ImageProject project;
  project.name = fs::weakly_canonical(folder).filename().string();
  project.files = setting_files_in(folder);
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    if (found_in(folder, name) == name) project.files.emplace_back(name);
  }
  if (only.empty()) {
    project.recipe = read_image_preprocessing(folder);
    return two_towers(folder, std::move(project), text, image);
  }
  const Signature signature = onnx::inspect(folder / only).signature;
  if (!takes_image(signature)) return std::nullopt;
  if (has_two_towers(config.text("model_type"))) {
    throw Error(
        ErrorCode::invalid_model,
        format_message("'{}' holds both towers of a {} model, which runs only with a text and an image at once; "
                       "accepted: text_model.onnx and vision_model.onnx, or model.safetensors to import",
                       file_at(folder / only), config.text("model_type")));
  }
  project.recipe = read_image_preprocessing(folder);
  project.source = only.generic_string();
  add_labels(config, signature, project);
  return project;
}

}  // namespace gpux::checkpoint
