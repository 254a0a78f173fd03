#include "pipeline/zero_shot_images.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::pipeline {
namespace {

constexpr std::string_view label_place = "{}";

void activate(std::vector<double>& scores, Activation activation) {
  if (activation == Activation::sigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
    return;
  }
  if (scores.empty()) return;
  const double highest = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - highest);
  for (double& score : scores) score /= sum;
}

}  // namespace

void check_image_labels(std::span<const std::string> labels, std::string_view label_template) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_input, message); };
  if (labels.empty()) refuse("there are no labels; accepted: at least one");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty()) refuse(fmt::format("label {} is empty", i));
    if (std::ranges::find(labels.first(i), labels[i]) != labels.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse(fmt::format("the label '{}' occurs twice", labels[i]));
    }
  }
  if (label_template.find(label_place) == std::string_view::npos) {
    refuse(fmt::format("the template '{}' has no {{}} in place of the label", label_template));
  }
}

std::vector<std::string> image_label_texts(std::span<const std::string> labels, std::string_view label_template) {
  std::vector<std::string> texts;
  for (const std::string& label : labels) {
    std::string text(label_template);
    texts.push_back(text.replace(text.find(label_place), label_place.size(), label));
  }
  return texts;
}

std::vector<LabelScore> zero_shot_image_scores(std::span<const float> image,
                                               std::span<const std::vector<float>> label_vectors,
                                               std::span<const std::string> labels, const ZeroShotSettings& settings) {
  std::vector<double> scores;
  for (const std::vector<float>& label : label_vectors) {
    const double cosine = std::inner_product(image.begin(), image.end(), label.begin(), 0.0);
    scores.push_back(settings.logit_scale * cosine + settings.logit_bias);
  }
  activate(scores, settings.activation);
  std::vector<LabelScore> all;
  for (std::size_t i = 0; i < scores.size(); ++i) all.push_back({labels[i], scores[i]});
  std::ranges::stable_sort(all, std::ranges::greater(), &LabelScore::score);
  return all;
}

}  // namespace gpux::pipeline
