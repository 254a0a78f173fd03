#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "generation/chat_plan.h"
#include "gpux/generator.h"
#include "server/generation/answer_events.h"
#include "server/generation/answer_writer.h"
#include "server/generation/whole_answer.h"
#include "server/protocols/request_error.h"
#include "server/protocols/text_inputs.h"
#include "text/tokenizer.h"

namespace gpux::server {

/// How a protocol writes the answers to a request for text.
struct AnswerRendering {
  /// Null: the answers are sent whole. `prompt_tokens`: of all prompts.
  std::function<std::unique_ptr<AnswerEvents>(std::size_t prompt_tokens)> events;
  /// Gets the answers as `kept_as` has them.
  std::function<std::string(const std::vector<AnswerDelta>& parts, const AnswerUsage& usage)> whole;
  AnswerParts kept_as = AnswerParts::joined;  ///< in_order: for requests for one answer
};

/// Prompts that are continued as they are.
struct Continuation {
  std::vector<TextInput> prompts;  ///< at least one
  std::string suffix = {};         ///< what follows the text, for models that fill in the middle; empty: nothing
  bool echoes = false;             ///< AnswerDelta::echo
  bool special_tokens = true;      ///< those that the model expects around a prompt are added to texts
  GenerationSettings settings;
};

/// A request for text, whatever its protocol.
struct GenerationRequest {
  std::variant<Continuation, generation::ChatRequest> asked;
  std::size_t answers = 1;         ///< to each prompt
  TokenIds earlier = {};           ///< tokens that the prompt continues: "context" of the request
  bool gives_tokens = false;       ///< AnswerDelta::tokens; for requests with one prompt
  bool limits_tokens = false;      ///< max_tokens beyond the context means as many as it holds
  std::size_t context_length = 0;  ///< of a prompt and its answer; 0: the engine's
  NamedMembers members = {};
  AnswerRendering rendering = {};
};

/// Bytes of a prompt beyond which it cannot fit in the context, so that it is not tokenized to be refused: 16 for each
/// token, which no text reaches, and at least 1 MiB. Pure.
[[nodiscard]] std::size_t max_prompt_bytes(std::size_t context_length) noexcept;

/// The tokens of a prompt, whose length the caller has checked. Errors of generation::prompt_tokens().
std::vector<std::uint32_t> tokens_of(const TextInput& prompt, bool special_tokens, const text::Tokenizer& tokenizer);

}  // namespace gpux::server
