#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/export.h"
#include "gpux/label_score.h"
#include "gpux/model.h"
#include "gpux/zero_shot.h"

namespace gpux {

/// A text of a list, and how well it fits the query.
struct RankedText {
  std::size_t index = 0;
  double score = 0;
};

/// Something named in a text.
struct TextEntity {
  std::string label, text;
  double score = 0;
  std::size_t begin = 0, end = 0;  ///< in Unicode code points
};

/// A part of a context that answers a question.
struct TextAnswer {
  std::string text;  ///< empty: the context holds no answer
  double score = 0;
  std::size_t begin = 0, end = 0;  ///< in Unicode code points
};

/// A model that reads texts and judges them: its task is what config.json or gpux.yml says. Each text has a run of its
/// own, so that its answer does not depend on the others. Movable; const calls from several threads at once.
/// Calls for another task than the model's: error usage.
class GPUX_API Pipeline {
 public:
  /// `model` as for Model. Errors of Model; invalid_model where it reads no texts.
  explicit Pipeline(const std::string& model, const ModelOptions& options = {});
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// "text-classification", "text-ranking", "token-classification", "question-answering"; "none" where the model only
  /// reads texts.
  [[nodiscard]] std::string_view task() const noexcept;

  /// text-classification: all labels with their scores, best first. Errors invalid_input; of Runtime::infer().
  [[nodiscard]] std::vector<LabelScore> classify(std::string_view text) const;
  [[nodiscard]] std::vector<std::vector<LabelScore>> classify(std::span<const std::string> texts) const;

  /// text-classification by a model of natural language inference, whose label "entailment" tells whether a text
  /// entails a hypothesis: for each text all labels of the options with their scores, best first. Errors invalid_input
  /// (no labels, an empty one, one twice, a template without {}); usage: the model has no such label; of
  /// Runtime::infer().
  [[nodiscard]] std::vector<LabelScore> zero_shot(std::string_view text, const ZeroShotOptions& options) const;
  [[nodiscard]] std::vector<std::vector<LabelScore>> zero_shot(std::span<const std::string> texts,
                                                               const ZeroShotOptions& options) const;

  /// text-ranking: the texts, best first.
  [[nodiscard]] std::vector<RankedText> rank(std::string_view query, std::span<const std::string> texts) const;

  /// token-classification: names, places, dates and the like.
  [[nodiscard]] std::vector<TextEntity> find_entities(std::string_view text) const;

  /// question-answering: the answer to the question, found in the context.
  [[nodiscard]] TextAnswer answer(std::string_view question, std::string_view context) const;

  /// The model that the pipeline runs.
  [[nodiscard]] const Model& model() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux
