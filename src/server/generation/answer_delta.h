#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/generator.h"

namespace gpux::server {

/// A part of a call of a tool as it comes. The first one of a call has its id and its name.
struct ToolCallDelta {
  std::size_t index = 0;  ///< of the call in its answer
  std::string id, name;
  std::string arguments;  ///< more of the JSON text
};

/// A part of one of the answers to a request, or several parts that came one after the other.
struct AnswerDelta {
  std::size_t choice = 0;  ///< of the answers
  bool is_first = false;   ///< of its answer
  std::string text;
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;
  std::vector<TokenScore> scores;           ///< of its tokens, where requested
  std::string finish_reason;                ///< "stop", "length", "tool_calls"; empty: it goes on
  std::optional<std::uint32_t> stop_token;  ///< of GenerationSettings::stop_tokens, the one that ended it
  /// At the end of an answer whose tokens are requested: those of the prompt and of the answer.
  std::vector<std::uint32_t> tokens = {};
  std::string echo = {};                       ///< of the first part, where requested: the prompt
  std::vector<TokenScore> prompt_scores = {};  ///< of the prompt's tokens, before those of the answer, where requested
  std::string stop_text;                       ///< the text of GenerationSettings::stop that ended it; empty: none did

  /// About what it takes in memory, and in an event.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// Whether `next`, which follows, can be part of it without a change of the order in which text, reasoning and calls
  /// come, and of the part that its scores are of.
  [[nodiscard]] bool can_append(const AnswerDelta& next) const noexcept;
  void append(AnswerDelta&& next);
};

/// Tokens and times of a request, for all its answers.
struct AnswerUsage {
  std::size_t prompt_tokens = 0;          ///< of each prompt once
  std::size_t cached_tokens = 0;          ///< of these, whose keys and values were there
  std::size_t generated_tokens = 0;       ///< of all answers
  std::size_t draft_tokens = 0;           ///< that were guessed and run
  std::size_t accepted_draft_tokens = 0;  ///< of those, the ones that the model chose
  std::size_t reasoning_tokens = 0;       ///< of generated_tokens, up to the last one that gave reasoning
  std::chrono::duration<double> queue_time{0}, prompt_time{0}, generation_time{0};  ///< of the slowest answer
};

}  // namespace gpux::server
