#include "model/open_image_encoder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "checkpoint/image_project.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/sentence_model.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "model/level_choice.h"
#include "model/open_model.h"
#include "model/required_precision.h"
#include "onnx/model_files.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

// config.json in the folder of gpux.yml.
std::string model_type_in(const fs::path& folder) {
  return JsonSettings(folder / "config.json").text("model_type");
}

// "clip_vision_model", "siglip_vision_model": a tower alone.
bool is_compared_by_cosine(std::string_view model_type) {
  constexpr std::string_view tower = "_vision_model";
  if (model_type.ends_with(tower)) model_type.remove_suffix(tower.size());
  return checkpoint::has_two_towers(model_type);
}

void refuse_text_flags(const EncoderFlags& flags) {
  const auto refuse = [](const Message& what) {
    throw Error(ErrorCode::usage, format_message("{} applies to texts, and these are images", what));
  };
  if (!flags.prompt.empty()) refuse({setting_named("prompt")});
  if (flags.prompt_text) refuse({setting_named("prompt_text")});
  if (flags.max_tokens != 0) refuse({setting_named("max_tokens")});
  if (!flags.level.empty()) refuse({setting_named("level")});
  if (flags.representation.value_or(embedding::Representation::dense) != embedding::Representation::dense)
    refuse({"a representation other than dense vectors"});
  if (flags.batching == TextBatching::throughput) refuse({setting_named("batching"), " throughput"});
}

}  // namespace

std::optional<ImageTower> image_tower_of(const LocatedModel& located) {
  if (!located.project) return std::nullopt;
  const ProjectFile& project = *located.project;
  if (project.image_tower.empty() && !project.image_recipe) return std::nullopt;
  const fs::path folder = located.stored ? located.package_folder : project.folder();
  ImageTower tower{.onnx_file = project.image_tower.empty() ? located.onnx_file : project.image_tower,
                   .facts = {.model_type = model_type_in(folder), .vectors = {}},
                   .similarity = Similarity::cosine};
  const bool has_texts = !project.image_tower.empty();
  tower.facts.vectors.normalizes = has_texts || is_compared_by_cosine(tower.facts.model_type);
  if (!has_texts) return tower;
  if (const auto texts = checkpoint::sentence_model_of(located.onnx_file)) {
    tower.facts.vectors.truncate_dim = texts->dimensions;
    tower.similarity = texts->similarity.value_or(Similarity::cosine);
  }
  return tower;
}

ImageInput image_input_of(const LocatedModel& located, const ImageTower& tower, const image::Sources& sources) {
  const Signature signature = ModelInspector::inspect(tower.onnx_file).signature;
  const ProjectFile* project = located.project ? &*located.project : nullptr;
  std::optional<ImageInput> input = gpux::image_input(project, signature, sources);
  if (input) return *std::move(input);
  throw Error(
      ErrorCode::invalid_config,
      fmt::format("{}: 'model.image_tower' requires keys of 'preprocessing' that say how images become its input",
                  project != nullptr ? project->where("model.image_tower") : tower.onnx_file.string()));
}

Runtime load_image_tower(const LocatedModel& located, const ImageTower& tower, LoadSettings settings) {
  if (tower.onnx_file == located.onnx_file) return load_located(located, std::move(settings));
  // Variants in other precisions and optimized graphs are the text tower's.
  settings.options.map_weights = located.stored.has_value();
  Runtime runtime(tower.onnx_file, settings.options);
  require_precision(runtime, settings);
  return runtime;
}

std::string digest_of_weights(const std::filesystem::path& onnx_file, const std::stop_token& stop) {
  std::string digests;
  const std::vector<std::filesystem::path> files = onnx::files_of(onnx_file, ModelInspector::inspect(onnx_file));
  for (const std::filesystem::path& file : files) digests += sha256_of_file(file, stop) + '\n';
  return files.size() == 1 ? digests.substr(0, digests.size() - 1) : sha256_of(digests);
}

std::string digest_of_vectors(const LocatedModel& located, const std::string& digest_of_model) {
  if (!located.project || !has_image_tower(located)) return digest_of_model;
  return sha256_of(digest_of_model + '\n' + digest_of_weights(located.project->image_tower));
}

OpenImageEncoder open_image_encoder(const EncoderFlags& given, const image::Sources& sources, const Teller& tell) {
  EncoderFlags flags = given;
  refuse_text_flags(flags);
  if (flags.model.empty()) {
    throw Error(ErrorCode::usage, "give the model of the images, as the first word or with -m");
  }
  apply_op_dbus(flags.load);
  const LocatedModel located = flags.located ? *flags.located : locate(flags.model, open_store());
  require_one_model(located, "what makes vectors");
  const std::optional<ImageTower> tower = image_tower_of(located);
  if (!tower) {
    throw Error(
        ErrorCode::usage,
        fmt::format("'{}' takes no images: its gpux.yml has no image keys under 'preprocessing', and there is no "
                    "preprocessor_config.json beside it",
                    flags.model));
  }
  LoadSettings settings = resolve_load(flags.load, located);
  if (!settings.options.intra_threads) settings.options.intra_threads = 1;  // images run side by side
  const unsigned threads = *settings.options.intra_threads;
  OpenImageEncoder encoder{
      .embedder = nullptr,
      .options = {.dimensions = flags.dimensions, .normalize = flags.normalize, .timeout = settings.timeout()},
      .similarity = tower->similarity,
      .name = located.name,
      .digest = {},
      .dimension = flags.dimensions,
      .workers = std::max(1U, usable_processors(Machine::this_one()) / threads)};
  ImageInput input = image_input_of(located, *tower, sources);
  encoder.embedder = std::make_unique<embedding::ImageEmbedder>(tower->facts, std::move(input),
                                                                load_image_tower(located, *tower, std::move(settings)));
  encoder.embedder->encoder().check(encoder.options);
  if (encoder.dimension == 0) encoder.dimension = encoder.embedder->encoder().dimension();
  const bool is_tower = tower->onnx_file != located.onnx_file;
  encoder.digest = is_tower ? digest_of_vectors(located, digest_of_weights(located.onnx_file))
                            : digest_of_weights(encoder.embedder->runtime().weights_file());
  tell(to_line(encoder.embedder->runtime().verdict(), flags.name_of));
  return encoder;
}

}  // namespace gpux
