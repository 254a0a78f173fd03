#include "pipeline/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::pipeline {
namespace {

constexpr std::string_view slot = "{}";

// exp(score) of each by the sum of all.
std::vector<double> shares(const std::vector<double>& scores) {
  const double highest = *std::ranges::max_element(scores);
  std::vector<double> result;
  double total = 0;
  for (const double score : scores) total += result.emplace_back(std::exp(score - highest));
  for (double& share : result) share /= total;
  return result;
}

}  // namespace

void check_zero_shot(const ZeroShotOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_input, message); };
  if (options.labels.empty()) refuse("there are no labels");
  for (std::size_t i = 0; i < options.labels.size(); ++i) {
    const std::string& label = options.labels[i];
    if (label.empty()) refuse(fmt::format("label {} is empty", i));
    const auto end = options.labels.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(options.labels.begin(), end, label) != end) {
      refuse(fmt::format("label '{}' occurs twice", utf8_prefix(label, 60)));
    }
  }
  if (options.hypothesis_template.find(slot) == std::string::npos) {
    refuse(fmt::format("the template '{}' has no {{}} for the label", utf8_prefix(options.hypothesis_template, 60)));
  }
}

std::size_t entailment_index(std::span<const std::string> model_labels, std::string_view model) {
  const auto found =
      std::ranges::find_if(model_labels, [](const std::string& label) { return lower(label).starts_with("entail"); });
  if (found != model_labels.end() && model_labels.size() > 1) {
    return static_cast<std::size_t>(found - model_labels.begin());
  }
  throw Error(
      ErrorCode::usage,
      fmt::format("labels are given, and '{}' does not classify by them: its labels are {}; accepted: a model of "
                  "natural language inference, with a label 'entailment' and another",
                  model,
                  model_labels.empty() ? "not known"
                                       : join(std::vector<std::string>(model_labels.begin(), model_labels.end()))));
}

NamedValues zero_shot_pairs(std::span<const std::string> texts, const ZeroShotOptions& options) {
  std::vector<std::string> hypotheses;
  for (const std::string& label : options.labels) {
    std::string hypothesis = options.hypothesis_template;
    hypotheses.push_back(hypothesis.replace(hypothesis.find(slot), slot.size(), label));
  }
  std::vector<std::string> firsts, seconds;
  for (const std::string& text : texts) {
    for (const std::string& hypothesis : hypotheses) {
      firsts.push_back(text);
      seconds.push_back(hypothesis);
    }
  }
  const Shape shape{static_cast<std::int64_t>(firsts.size())};
  return {{"text", Tensor::of_strings(shape, std::move(firsts))},
          {"text_pair", Tensor::of_strings(shape, std::move(seconds))}};
}

std::vector<std::vector<LabelScore>> zero_shot_scores(const Tensor& logits, std::size_t entailment,
                                                      const ZeroShotOptions& options) {
  const std::size_t labels = options.labels.size();
  const Shape& shape = logits.shape();
  const bool fits = shape.size() == 2 && shape[0] % static_cast<std::int64_t>(labels) == 0 &&
                    shape[1] > static_cast<std::int64_t>(entailment) && shape[1] > 1;
  if (!fits) {
    throw Error(ErrorCode::invalid_model, fmt::format("the logits of {} labels are {}", labels, to_string(shape)));
  }
  const Tensor floats = convert(logits, ElementType::float32);
  const std::span<const float> numbers = floats.as<float>();
  const auto classes = static_cast<std::size_t>(shape[1]);
  const std::size_t contradiction = entailment == 0 ? classes - 1 : 0;
  std::vector<std::vector<LabelScore>> all;
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape[0]); row += labels) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < labels; ++i) {
      const double entailed = numbers[(row + i) * classes + entailment];
      if (labels > 1 && !options.multi_label) {
        scores.push_back(entailed);
      } else {
        scores.push_back(shares({double{numbers[(row + i) * classes + contradiction]}, entailed}).back());
      }
    }
    if (labels > 1 && !options.multi_label) scores = shares(scores);
    auto& of_text = all.emplace_back();
    for (std::size_t i = 0; i < labels; ++i) of_text.push_back({options.labels[i], scores[i]});
    std::ranges::stable_sort(of_text, std::greater(), &LabelScore::score);
  }
  return all;
}

}  // namespace gpux::pipeline
