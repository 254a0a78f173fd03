#pragma once

#include <span>
#include <string>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"

/// How much a model thinks before it answers, as clients of OpenAI, OpenRouter, vLLM and Anthropic ask for it.
namespace gpux::server {

/// Fields that read_reasoning() reads.
[[nodiscard]] std::span<const Field> reasoning_fields();

/// "reasoning_effort" of OpenAI, "reasoning": {"effort", "enabled"} of OpenRouter, "enable_thinking" of Qwen's servers,
/// and "thinking": {"type": "enabled" or "disabled"} of Anthropic, into ChatOptions::reasoning. Returns the member that
/// it comes from, for NamedMembers::reasoning; empty where there is none. Error invalid_input: two of them differ.
std::string read_reasoning(Members& members, ChatOptions& options);

}  // namespace gpux::server
