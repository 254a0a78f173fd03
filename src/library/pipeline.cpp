#include "gpux/pipeline.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "library/model_state.h"
#include "pipeline/labels.h"
#include "pipeline/pipeline.h"
#include "pipeline/zero_shot.h"

namespace gpux {
namespace {

using pipeline::Task;

Tensor strings_of(std::vector<std::string> texts) {
  const auto count = static_cast<std::int64_t>(texts.size());
  return Tensor::of_strings({count}, std::move(texts));
}

TextEntity entity_of(const nlohmann::json& json) {
  return {.label = json.contains("entity_group") ? json.at("entity_group") : json.at("entity"),
          .text = json.at("word"),
          .score = json.at("score"),
          .begin = json.at("start"),
          .end = json.at("end")};
}

}  // namespace

struct Pipeline::State {
  State(const std::string& its_name, const ModelOptions& options) : name(its_name), model(its_name, options) {}

  std::string name;
  Model model;
  const pipeline::Pipeline* pipeline = nullptr;
  DeclaredValue logits;  ///< of a classifier: labels and activation

  [[nodiscard]] std::string_view task() const {
    return pipeline::name_of(pipeline::task_names, pipeline->settings().task);
  }

  void require(Task wanted) const {
    if (pipeline->settings().task == wanted) return;
    throw Error(ErrorCode::usage, fmt::format("the model's task is {}, and {} is requested", task(),
                                              pipeline::name_of(pipeline::task_names, wanted)));
  }

  [[nodiscard]] NamedValues infer(const NamedValues& given, std::string output) const {
    return model.infer(given, {.timeout = {}, .outputs = {std::move(output)}});
  }
};

Pipeline::Pipeline(const std::string& model, const ModelOptions& options)
    : state_(std::make_unique<State>(model, options)) {
  const OpenModel& open = state_->model.state_->open;
  state_->pipeline = open.pipeline.get();
  if (state_->pipeline == nullptr) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' reads no texts: there is no tokenizer.json beside its ONNX file", model));
  }
  for (const DeclaredValue& output : open.declared_outputs()) {
    if (output.name == state_->pipeline->logits()) state_->logits = output;
  }
}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

std::string_view Pipeline::task() const noexcept {
  return state_->task();
}

std::vector<std::vector<LabelScore>> Pipeline::classify(std::span<const std::string> texts) const {
  state_->require(Task::text_classification);
  if (texts.empty()) return {};
  const NamedValues outputs =
      state_->infer({{"text", strings_of({texts.begin(), texts.end()})}}, state_->pipeline->logits());
  DeclaredValue declared = state_->logits;
  declared.top_k.reset();
  return pipeline::label_scores(declared, *outputs.front().second.tensor());
}

std::vector<LabelScore> Pipeline::classify(std::string_view text) const {
  const std::vector<std::string> texts{std::string(text)};
  return classify(texts).front();
}

std::vector<std::vector<LabelScore>> Pipeline::zero_shot(std::span<const std::string> texts,
                                                         const ZeroShotOptions& options) const {
  state_->require(Task::text_classification);
  pipeline::check_zero_shot(options);
  const std::size_t entailment = pipeline::entailment_index(state_->pipeline->settings().labels, state_->name);
  std::vector<std::vector<LabelScore>> all;
  // The labels of one text share a run, as those of `gpux run --labels`.
  for (const std::string& text : texts) {
    const NamedValues outputs =
        state_->infer(pipeline::zero_shot_pairs({&text, 1}, options), state_->pipeline->logits());
    all.push_back(pipeline::zero_shot_scores(*outputs.front().second.tensor(), entailment, options).front());
  }
  return all;
}

std::vector<LabelScore> Pipeline::zero_shot(std::string_view text, const ZeroShotOptions& options) const {
  const std::vector<std::string> texts{std::string(text)};
  return zero_shot(texts, options).front();
}

std::vector<RankedText> Pipeline::rank(std::string_view query, std::span<const std::string> texts) const {
  state_->require(Task::text_ranking);
  if (texts.empty()) return {};
  const NamedValues outputs = state_->infer(
      {{"query", strings_of({std::string(query)})}, {"text", strings_of({texts.begin(), texts.end()})}}, "scores");
  std::vector<RankedText> ranked;
  for (const float score : outputs.front().second.tensor()->as<float>()) ranked.push_back({ranked.size(), score});
  std::ranges::stable_sort(ranked, std::greater(), &RankedText::score);
  return ranked;
}

std::vector<TextEntity> Pipeline::find_entities(std::string_view text) const {
  state_->require(Task::token_classification);
  const NamedValues outputs = state_->infer({{"text", strings_of({std::string(text)})}}, "entities");
  std::vector<TextEntity> entities;
  for (const auto& json : nlohmann::json::parse(outputs.front().second.tensor()->strings().front())) {
    entities.push_back(entity_of(json));
  }
  return entities;
}

TextAnswer Pipeline::answer(std::string_view question, std::string_view context) const {
  state_->require(Task::question_answering);
  const NamedValues outputs = state_->infer(
      {{"question", strings_of({std::string(question)})}, {"context", strings_of({std::string(context)})}}, "answers");
  const auto json = nlohmann::json::parse(outputs.front().second.tensor()->strings().front());
  return {.text = json.at("answer"), .score = json.at("score"), .begin = json.at("start"), .end = json.at("end")};
}

const Model& Pipeline::model() const noexcept {
  return state_->model;
}

}  // namespace gpux
