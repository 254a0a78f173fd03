#include "cli/zero_shot_images.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "cli/print_json.h"
#include "embedding/image_paths.h"
#include "gpux/error.h"
#include "model/open_encoder.h"
#include "model/open_image_encoder.h"
#include "model/open_model.h"

namespace gpux::cli {
namespace {

std::string with_label(std::string text, const std::string& label) {
  constexpr std::string_view place = "{}";
  return text.replace(text.find(place), place.size(), label);
}

ZeroShotSettings settings_of(const LocatedModel& located, const LabelFlags& flags) {
  if (flags.labels.empty()) throw Error(ErrorCode::usage, "run: give --labels, as in --labels cat,dog");
  for (const std::string& label : flags.labels) {
    if (label.empty()) throw Error(ErrorCode::usage, "--labels: a label is empty");
  }
  if (!located.project || !located.project->zero_shot) {
    throw Error(
        ErrorCode::invalid_config,
        fmt::format("{}: scores of labels require 'zero_shot' with the model's logit_scale, which its ONNX files "
                    "do not have; a folder with model.safetensors is imported with it",
                    located.project ? located.project->file.string() : located.onnx_file.string()));
  }
  ZeroShotSettings settings = *located.project->zero_shot;
  if (!flags.label_template.empty()) settings.label_template = flags.label_template;
  if (settings.label_template.find("{}") == std::string::npos) {
    throw Error(ErrorCode::usage,
                fmt::format("--template '{}' has no {{}} in place of the label", settings.label_template));
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

std::vector<double> zero_shot_image_scores(std::span<const float> image, std::span<const std::vector<float>> labels,
                                           const ZeroShotSettings& settings) {
  std::vector<double> scores;
  for (const std::vector<float>& label : labels) {
    const double cosine = std::inner_product(image.begin(), image.end(), label.begin(), 0.0);
    scores.push_back(settings.logit_scale * cosine + settings.logit_bias);
  }
  if (settings.activation == Activation::sigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
    return scores;
  }
  if (scores.empty()) return scores;
  const double highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - highest);
  for (double& score : scores) score /= sum;
  return scores;
}

bool has_image_tower(const std::string& model) {
  const LocatedModel located = locate(model, open_store());
  return located.project && !located.project->image_tower.empty();
}

void run_zero_shot_images(const std::string& model, const std::vector<std::string>& words, const LabelFlags& flags,
                          const LoadFlags& load, const std::string& timeout, const Context& context) {
  const LocatedModel located = locate(model, open_store());
  const ZeroShotSettings settings = settings_of(located, flags);
  const std::vector<std::string> images = images_of(words);
  EncoderFlags encoder;
  encoder.model = model;
  encoder.load = load;
  encoder.timeout = timeout;
  const auto tell = [&](std::string_view line) { say(context, line); };
  std::vector<std::vector<float>> labels;
  {
    const OpenEncoder texts = open_encoder(encoder, tell);
    for (const std::string& label : flags.labels) {
      labels.push_back(texts.embedder->embed(with_label(settings.label_template, label), texts.options));
    }
  }
  const OpenImageEncoder towers =
      open_image_encoder(encoder, {.bytes = false, .base64 = false, .data_url = false, .path = true}, tell);
  Json all = Json::array();
  const auto add = [&](std::string_view image, std::span<const float> vector) {
    const std::vector<double> scores = zero_shot_image_scores(vector, labels, settings);
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    Json names = Json::array();
    Json numbers = Json::array();
    for (const std::size_t i : order) {
      names.push_back(flags.labels[i]);
      numbers.push_back(Json::parse(fmt::format("{}", static_cast<float>(scores[i]))));
    }
    all.push_back({{"image", std::string(image)}, {"labels", std::move(names)}, {"scores", std::move(numbers)}});
  };
  embedding::embed_images(*towers.embedder, towers.options, images, towers.workers, add);
  print_json(all.size() == 1 ? all.front() : all);
}

}  // namespace gpux::cli
