#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/task.h"

/// Answers from the logits of a text's tokens: entities and answers to questions. Pure.
namespace gpux::pipeline {

/// A token of a text: its bytes, and whether it continues the word of the token before.
struct TokenPlace {
  std::size_t begin = 0, end = 0;
  bool is_text = true;  ///< false: a special token, or one of another text
  bool continues_word = false;
};

/// Something named in a text. `begin` and `end` count Unicode code points.
struct Entity {
  std::string label, text;
  double score = 0;
  std::size_t begin = 0, end = 0;
};

/// `logits` are [tokens, labels]. Each token has the scores that softmax makes of its own; the label "O" is nothing.
/// Aggregation::none gives each token; else tokens whose labels agree but for "B-" and "I-" and that follow one another
/// are one entity, with the mean of their scores; a "B-" begins another. first, average and max decide for whole words:
/// by the first token, the mean of the scores, or the token with the highest one.
/// Source: TokenClassificationPipeline of Hugging Face's transformers.
std::vector<Entity> find_entities(std::string_view text, std::span<const TokenPlace> tokens,
                                  std::span<const float> logits, std::span<const std::string> labels,
                                  Aggregation aggregation);

/// A part of a text that answers a question. `begin` and `end` count Unicode code points.
struct Answer {
  std::string text;
  double score = 0;
  std::size_t begin = 0, end = 0;
};

/// The best spans of at most `max_tokens` tokens of the text, by the product of softmaxes over its tokens and the
/// first one, which models use to say that there is no answer; whole words of it, at most `count`, best first. Source:
/// QuestionAnsweringPipeline of Hugging Face's transformers.
std::vector<Answer> find_answers(std::string_view text, std::span<const TokenPlace> tokens,
                                 std::span<const float> start_logits, std::span<const float> end_logits,
                                 std::size_t max_tokens, std::size_t count);

/// The best of the answers of a text's parts, where those that read the same count together; an empty one of score 0
/// where there is none. Source: as above.
Answer best_of(std::span<const Answer> answers);

/// [{"entity_group", "score", "word", "start", "end"}]; "entity" where nothing was put together.
std::string to_json(std::span<const Entity> entities, Aggregation aggregation);

/// {"score", "start", "end", "answer"}
std::string to_json(const Answer& answer);

}  // namespace gpux::pipeline
