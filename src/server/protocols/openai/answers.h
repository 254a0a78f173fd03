#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/generation/answer_delta.h"
#include "server/generation/answer_events.h"
#include "text/tokenizer.h"

/// Answers with text, as OpenAI's clients read them. Source: OpenAI's API reference, "Create chat completion", "Create
/// completion" and their streams.
namespace gpux::server {

/// Members that all parts of an answer have.
struct AnswerHead {
  std::string id;            ///< "chatcmpl-…", "cmpl-…"
  std::int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string fingerprint = {};  ///< system_fingerprint: RanOn::fingerprint
};

/// What an answer to POST /v1/completions has besides its text.
struct CompletionParts {
  bool scores_echo = false;        ///< "logprobs" also has the prompt's tokens
  bool has_prompt_scores = false;  ///< "prompt_logprobs"
};

/// The answer to POST /v1/chat/completions. `choices` have all their parts. "prompt_logprobs" is there where the first
/// one has the scores of its prompt.
std::string chat_answer_json(const AnswerHead& head, const std::vector<AnswerDelta>& choices, const AnswerUsage& usage);

/// The answer to POST /v1/completions.
std::string completion_answer_json(const AnswerHead& head, const CompletionParts& parts,
                                   const std::vector<AnswerDelta>& choices, const AnswerUsage& usage);

/// Writes a streamed answer as server-sent events. `has_usage`: a last event has the token counts.
std::unique_ptr<AnswerEvents> chat_answer_events(AnswerHead head, bool has_usage);
std::unique_ptr<AnswerEvents> completion_answer_events(AnswerHead head, const CompletionParts& parts, bool has_usage);

}  // namespace gpux::server
