#include "server/protocols/reasoning_choice.h"

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/request_json.h"

namespace gpux::server {

std::string reasoning_values(const ReasoningChoice& choice, const ServedModel& model) {
  if (!choice.effort.empty()) {
    refuse_member(choice.effort_member, fmt::format("is '{}': levels of reasoning are not supported; accepted: null",
                                                    utf8_prefix(choice.effort, 40)));
  }
  if (!choice.thinks || model.chat() == nullptr) return {};
  const std::string& text = model.chat()->template_text(false);
  if (text.find("enable_thinking") != std::string::npos) {
    return fmt::format(R"({{"enable_thinking":{}}})", *choice.thinks);
  }
  const bool can_think = !generation::answer_format_of(text).reasoning_end.empty();
  if (choice.is_wish || can_think == *choice.thinks) return {};
  refuse_member(choice.thinks_member, fmt::format(": '{}' {} before it answers", model.name(),
                                                  can_think ? "always thinks" : "does not think"));
}

}  // namespace gpux::server
