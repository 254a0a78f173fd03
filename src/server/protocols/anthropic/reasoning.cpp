#include "server/protocols/anthropic/reasoning.h"

#include "generation/reasoning_request.h"
#include "gpux/error.h"

namespace gpux::server::anthropic {
namespace {

bool can_ask_for(ReasoningEffort effort, std::string_view template_text) {
  try {
    (void)generation::reasoning_variables(effort, template_text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

AskedReasoning asked_reasoning(Thinking thinking, const std::optional<ReasoningEffort>& effort,
                               std::string_view template_text) {
  using enum ReasoningEffort;
  if (thinking == Thinking::disabled) return {.effort = none, .member = "thinking"};
  const bool has_effort = effort && (*effort != high || generation::reads_variable(template_text, "reasoning_effort"));
  if (has_effort) return {.effort = effort, .member = "output_config.effort"};
  if (thinking == Thinking::enabled) return {.effort = usual, .member = "thinking"};
  if (thinking == Thinking::absent && can_ask_for(none, template_text)) return {.effort = none, .member = "thinking"};
  return {};
}

}  // namespace gpux::server::anthropic
