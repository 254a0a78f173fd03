#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "pipeline/pipeline.h"
#include "runtime/scheduling/batch.h"
#include "tensor/convert.h"

// What the results of the parts of texts become.
namespace gpux::pipeline {
namespace {

// As transformers has it.
constexpr std::size_t answers_of_a_part = 12;

Tensor strings_of(std::vector<std::string> texts) {
  const auto count = static_cast<std::int64_t>(texts.size());
  return Tensor::of_strings({count}, std::move(texts));
}

// Sizes beyond the first that differ are filled up with zeros.
Tensor join(const std::string& name, std::span<const NamedValues> results) {
  std::vector<NamedValues> items;
  runtime::BatchGroup group;
  runtime::Padding padding;
  bool same_shape = true;
  for (const NamedValues& result : results) {
    const Value* value = find(result, name);
    const Tensor* tensor = value == nullptr ? nullptr : value->tensor();
    if (tensor == nullptr || tensor->shape().empty()) {
      throw Error(ErrorCode::invalid_model, fmt::format("output '{}' has no rows to put together", name));
    }
    if (!items.empty()) {
      const Tensor& first = *items.front().front().second.tensor();
      if (tensor->shape().size() != first.shape().size() || tensor->type() != first.type()) {
        throw Error(ErrorCode::invalid_model, fmt::format("output '{}' has another rank for each text", name));
      }
      same_shape = same_shape && std::equal(tensor->shape().begin() + 1, tensor->shape().end(),
                                            first.shape().begin() + 1, first.shape().end());
    }
    group.items.push_back(items.size());
    group.rows.push_back(tensor->shape().front());
    items.push_back({{name, *tensor}});
  }
  const Tensor& first = *items.front().front().second.tensor();
  if (items.size() == 1) return first;
  runtime::PaddedInput padded{name, Tensor::allocate(first.type(), {1}), {}};
  for (std::size_t i = 1; i < first.shape().size(); ++i) padded.dimensions.push_back(i);
  padding.inputs.push_back(std::move(padded));
  NamedValues joined = runtime::concatenate(items, group, same_shape ? nullptr : &padding);
  return *joined.front().second.tensor();
}

std::vector<float> floats_of(const NamedValues& result, const std::string& name, std::size_t rank) {
  const Value* value = find(result, name);
  const Tensor* tensor = value == nullptr ? nullptr : value->tensor();
  if (tensor == nullptr || tensor->shape().size() != rank || tensor->shape().front() != 1) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("output '{}' of one text is not of rank {} with one row", name, rank));
  }
  const Tensor converted = convert(*tensor, ElementType::float32);
  const std::span<const float> floats = converted.as<float>();
  return {floats.begin(), floats.end()};
}

void check_count(const std::string& name, std::size_t met, std::size_t expected) {
  if (met < expected) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("output '{}' has {} numbers; the text's tokens ask for {}", name, met, expected));
  }
}

float score_of(float logit, PairActivation activation) {
  switch (activation) {
    case PairActivation::identity:
      return logit;
    case PairActivation::tanh:
      return std::tanh(logit);
    case PairActivation::sigmoid:
      break;
  }
  return 1 / (1 + std::exp(-logit));
}

}  // namespace

Tensor Pipeline::answers(const Prepared& prepared, std::span<const NamedValues> results) const {
  std::vector<std::vector<Answer>> found(prepared.rows);
  for (std::size_t i = 0; i < prepared.parts.size(); ++i) {
    const Part& part = prepared.parts[i];
    const std::vector<float> starts = floats_of(results[i], start_logits_, 2);
    const std::vector<float> ends = floats_of(results[i], end_logits_, 2);
    check_count(start_logits_, starts.size(), part.tokens);
    check_count(end_logits_, ends.size(), part.tokens);
    const std::vector<Answer> of_part =
        find_answers(prepared.texts[part.row], part.places, std::span(starts).first(part.tokens),
                     std::span(ends).first(part.tokens), settings_.max_answer_tokens, answers_of_a_part);
    found[part.row].insert(found[part.row].end(), of_part.begin(), of_part.end());
  }
  std::vector<std::string> texts;
  for (const std::vector<Answer>& of_row : found) texts.push_back(to_json(best_of(of_row)));
  return strings_of(std::move(texts));
}

Tensor Pipeline::entities(const Prepared& prepared, std::span<const NamedValues> results) const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < prepared.parts.size(); ++i) {
    const Part& part = prepared.parts[i];
    const std::vector<float> logits = floats_of(results[i], logits_, 3);
    check_count(logits_, logits.size(), part.tokens * settings_.labels.size());
    const std::vector<Entity> found =
        find_entities(prepared.texts[part.row], part.places, logits, settings_.labels, settings_.aggregation);
    texts.push_back(to_json(found, settings_.aggregation));
  }
  return strings_of(std::move(texts));
}

NamedValues Pipeline::finish(const Prepared& prepared, std::span<const NamedValues> results,
                             std::span<const std::string> names) const {
  std::vector<std::string> wanted(names.begin(), names.end());
  const bool is_alone = settings_.task == Task::question_answering || settings_.task == Task::token_classification;
  if (wanted.empty()) {
    for (const SignatureEntry& entry : signature_.outputs) {
      if (!is_alone || model_output(entry.name) == nullptr) wanted.push_back(entry.name);
    }
  }
  NamedValues outputs;
  for (const std::string& name : wanted) {
    if (model_output(name) != nullptr) {
      outputs.emplace_back(name, join(name, results));
    } else if (settings_.task == Task::question_answering) {
      outputs.emplace_back(name, answers(prepared, results));
    } else if (settings_.task == Task::token_classification) {
      outputs.emplace_back(name, entities(prepared, results));
    } else {
      std::vector<float> scores;
      for (const NamedValues& result : results) {
        const std::vector<float> logits = floats_of(result, logits_, 2);
        check_count(logits_, logits.size(), 1);
        scores.push_back(score_of(logits.front(), settings_.ranking));
      }
      const Shape shape{static_cast<std::int64_t>(scores.size())};
      outputs.emplace_back(name, Tensor::of<float>(shape, scores));
    }
  }
  return outputs;
}

NamedValues infer(const Pipeline& pipeline, const Runtime& runtime, const NamedValues& given,
                  const InferOptions& options) {
  InferOptions inner = options;
  inner.outputs = pipeline.model_outputs(options.outputs);
  Prepared prepared = pipeline.prepare(given);
  std::vector<NamedValues> results;
  for (const Part& part : prepared.parts) results.push_back(runtime.infer(part.inputs, inner));
  return pipeline.finish(prepared, results, options.outputs);
}

}  // namespace gpux::pipeline
