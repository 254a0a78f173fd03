#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpux/generator.h"
#include "server/generation/answer_events.h"
#include "server/generation/answer_writer.h"
#include "server/generation/whole_answer.h"
#include "server/protocols/request_error.h"
#include "server/protocols/text_inputs.h"
#include "text/tokenizer.h"

namespace gpux::server {

/// How a protocol writes the answers to a request for text.
struct AnswerFormat {
  std::function<std::unique_ptr<AnswerEvents>()> events;  ///< null: the answers are sent whole
  std::function<std::string(const std::vector<AnswerDelta>& choices, const AnswerUsage& usage)> whole;
  std::function<std::unique_ptr<AnswerReader>()> reader;  ///< of one answer
};

/// The members of a request that errors of its texts are about; empty: the protocol does not name them.
/// A request for text, whatever its protocol.
struct GenerationPlan {
  std::vector<TextInput> prompts;
  /// Makes the prompts, and what depends on them, before they become tokens; null: they are there.
  std::function<void(GenerationPlan& plan)> prepare;
  std::uint64_t bytes_to_prepare = 0;  ///< of what it reads
  bool special_tokens = false;         ///< added to prompts that are texts
  bool limits_tokens = false;          ///< max_tokens beyond the context means as many as it holds
  std::size_t context_length = 0;      ///< of a prompt and its answer; 0: the engine's
  GenerationSettings settings;
  std::vector<std::uint32_t> shown_tokens;  ///< EngineRequest::shown_tokens
  bool is_answer = false;                   ///< EngineRequest::is_answer
  std::size_t answers = 1;                  ///< to each prompt
  NamedMembers members;
  AnswerFormat format;
};

/// Bytes of a prompt beyond which it cannot fit in the context, so that it is not tokenized to be refused: 16 for each
/// token, which no text reaches, and at least 1 MiB. Pure.
[[nodiscard]] std::size_t max_prompt_bytes(std::size_t context_length) noexcept;

/// The tokens of a prompt, whose length the caller has checked. Errors of Tokenizer::encode().
std::vector<std::uint32_t> tokens_of(const TextInput& prompt, bool special_tokens, const text::Tokenizer& tokenizer);

}  // namespace gpux::server
