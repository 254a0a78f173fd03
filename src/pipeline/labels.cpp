#include "pipeline/labels.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::pipeline {
namespace {

void apply(Activation activation, std::vector<LabelScore>& scores) {
  if (activation == Activation::sigmoid) {
    for (LabelScore& entry : scores) entry.score = 1 / (1 + std::exp(-entry.score));
  }
  if (activation != Activation::softmax || scores.empty()) return;
  double highest = scores.front().score;
  for (const LabelScore& entry : scores) highest = std::max(highest, entry.score);
  double total = 0;
  for (LabelScore& entry : scores) total += entry.score = std::exp(entry.score - highest);
  for (LabelScore& entry : scores) entry.score /= total;
}

}  // namespace

std::vector<std::vector<LabelScore>> label_scores(const DeclaredValue& declared, const Tensor& output) {
  const std::size_t width = declared.labels.size();
  if (output.type() == ElementType::string || output.shape().empty() ||
      output.shape().back() != static_cast<std::int64_t>(width)) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("output '{}' has {} labels, but gave {}{}", declared.name, width, to_string(output.type()),
                            to_string(std::span<const std::int64_t>(output.shape()))));
  }
  const Tensor numbers = convert(output, ElementType::float64);
  const std::span<const double> values = numbers.as<double>();
  std::vector<std::vector<LabelScore>> rows;
  for (std::size_t first = 0; width != 0 && first < values.size(); first += width) {
    std::vector<LabelScore> scores;
    scores.reserve(width);
    for (std::size_t i = 0; i < width; ++i) scores.push_back({declared.labels[i], values[first + i]});
    apply(declared.activation, scores);
    // NaN is no score to sort by: it goes last.
    std::stable_sort(scores.begin(), scores.end(), [](const LabelScore& a, const LabelScore& b) {
      if (std::isnan(a.score) || std::isnan(b.score)) return !std::isnan(a.score) && std::isnan(b.score);
      return a.score > b.score;
    });
    if (declared.top_k) scores.resize(std::min(scores.size(), static_cast<std::size_t>(*declared.top_k)));
    rows.push_back(std::move(scores));
  }
  return rows;
}

}  // namespace gpux::pipeline
