#pragma once

#include <string>
#include <vector>

#include "gpux/generator.h"

/// Log probabilities of tokens, as OpenAI's and Ollama's chats write them.
namespace gpux::server {

/// The logarithm, or -9999 where it is lower: JSON has no infinity.
[[nodiscard]] float finite_logarithm(float value);

/// Appends {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}, …]} for each token, with
/// commas between them.
void append_token_scores(std::string& out, const std::vector<TokenScore>& scores);

}  // namespace gpux::server
