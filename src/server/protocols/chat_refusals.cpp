#include "server/protocols/chat_refusals.h"

#include <fmt/format.h>

#include "base/format_message.h"

namespace gpux::server {

void require_chat(const ServedModel& model, const generation::ChatRequest& asked) {
  if (model.chat() == nullptr) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}' takes no messages: {}; POST /v1/completions continues a text as it is", model.name(),
                            model.chat_problem()));
  }
  if (!generation::offers_tools(asked.options)) return;
  // Calls that a constraint lets through have a form that is known.
  if (asked.settings.constraint.kind != OutputConstraint::Kind::none) return;
  const generation::AnswerFormat format = generation::answer_format_of(model.chat()->template_text(true));
  const bool is_read = format.tool_calls != generation::ToolCallStyle::none;
  if (is_read || asked.options.tool_choice == ToolChoice::required) return;
  throw Error(
      ErrorCode::invalid_input,
      format_message("{}: the chat template of '{}' has no calls in a form that is known; accepted: tool_choice "
                     "required, or a function by its name",
                     setting_named("tools"), model.name()));
}

}  // namespace gpux::server
