#include "cli/zero_shot_images.h"

#include <span>
#include <string_view>

#include <fmt/format.h>

#include "cli/flag_names.h"
#include "cli/print_json.h"
#include "cli/search_images.h"
#include "embedding/image_paths.h"
#include "gpux/error.h"
#include "model/label_vectors.h"
#include "model/open_image_encoder.h"

namespace gpux::cli {
namespace {

ZeroShotSettings settings_of(const LocatedModel& located, const LabelFlags& flags) {
  if (flags.labels.empty()) throw Error(ErrorCode::usage, "run: give --labels, as in --labels cat,dog");
  ZeroShotSettings settings;
  try {
    settings = zero_shot_settings(located, {.labels = flags.labels, .label_template = flags.label_template});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
    throw error.within("--labels, --template").as(ErrorCode::usage);
  }
  if (flags.multi_label && settings.activation != Activation::sigmoid) {
    throw Error(ErrorCode::usage, "--multi-label: the scores of this model are shares of 1 (softmax)");
  }
  return settings;
}

std::vector<std::string> images_of(const std::vector<std::string>& words) {
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    if (!embedding::is_image_argument(word)) {
      throw Error(
          ErrorCode::usage,
          fmt::format("run: --labels scores images with this model, and '{}' is none; accepted: @IMAGE, @FOLDER",
                      word));
    }
    paths.push_back(word.substr(1));
  }
  if (paths.empty())
    throw Error(ErrorCode::usage, "run: --labels scores images with this model: give @IMAGE or @FOLDER");
  return embedding::images_in(paths).files;
}

}  // namespace

void run_zero_shot_images(const std::string& model, const LocatedModel& located, const std::vector<std::string>& words,
                          const LabelFlags& flags, const LoadRequest& load, const Context& context) {
  const ZeroShotSettings settings = settings_of(located, flags);
  const std::vector<std::string> images = images_of(words);
  EncoderFlags encoder;
  encoder.model = model;
  encoder.located = located;
  encoder.load = load;
  encoder.name_of = flag_name;
  const LabelVectors labels = embed_labels(encoder, {.labels = flags.labels, .label_template = flags.label_template},
                                           settings, [&](std::string_view line) { say(context, line); });
  const OpenImageEncoder towers = open_image_encoder(encoder, context);
  Json all = Json::array();
  const auto add = [&](std::string_view image, std::span<const float> vector) {
    Json names = Json::array();
    Json numbers = Json::array();
    for (const LabelScore& one : labels.scores(vector)) {
      names.push_back(one.label);
      numbers.push_back(Json::parse(fmt::format("{}", static_cast<float>(one.score))));
    }
    all.push_back({{"image", std::string(image)}, {"labels", std::move(names)}, {"scores", std::move(numbers)}});
  };
  embedding::embed_images(*towers.embedder, towers.options, images, towers.workers, add);
  print_json(all.size() == 1 ? all.front() : all);
}

}  // namespace gpux::cli
