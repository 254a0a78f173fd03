#pragma once

#include <string>
#include <vector>

#include "gpux/generator.h"

/// Log probabilities of tokens, as OpenAI's chats and responses have them.
namespace gpux::server {

/// The nearest number that JSON has: OpenAI writes -9999 for impossible tokens.
[[nodiscard]] float finite_logarithm(float value);

/// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}, …]} for each token, with commas
/// between them.
void append_token_scores(std::string& out, const std::vector<TokenScore>& scores);

}  // namespace gpux::server
