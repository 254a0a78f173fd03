#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "gpux/generator.h"
#include "server/generation/answer_events.h"
#include "server/generation/answer_writer.h"
#include "server/generation/whole_answer.h"
#include "server/protocols/text_requests.h"
#include "text/tokenizer.h"

namespace gpux::server {

/// How a protocol writes the answers to a request for text.
struct AnswerFormat {
  std::function<std::unique_ptr<AnswerEvents>()> events;  ///< null: the answers are sent whole
  std::function<std::string(const std::vector<AnswerDelta>& choices, const AnswerUsage& usage)> whole;
  std::function<std::unique_ptr<AnswerReader>()> reader;  ///< of one answer
};

/// A request for text, whatever its protocol.
struct GenerationPlan {
  std::vector<TextInput> prompts;
  bool special_tokens = false;  ///< added to prompts that are texts
  bool limits_tokens = false;   ///< max_tokens beyond the context means as many as it holds
  GenerationSettings settings;
  std::size_t answers = 1;  ///< to each prompt
  AnswerFormat format;
};

/// The tokens of a prompt. Errors of Tokenizer::encode().
std::vector<std::uint32_t> tokens_of(const TextInput& prompt, bool special_tokens, const text::Tokenizer& tokenizer);

}  // namespace gpux::server
