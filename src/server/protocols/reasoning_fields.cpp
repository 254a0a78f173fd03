#include "server/protocols/reasoning_fields.h"

#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "generation/reasoning_request.h"

namespace gpux::server {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 3> thinking_types{"enabled", "disabled", "adaptive"};

constexpr auto fields = std::to_array<Field>({
    {"reasoning_effort", choice, optional, nullptr, generation::effort_names},
    {"reasoning", object},
    {"thinking", object},
    {"enable_thinking", flag},
    refused_field("thinking_budget", "accepted is reasoning_effort, where the model's chat template knows it"),
    refused_field("include_reasoning", "answers have their reasoning; accepted: true", "true"),
});

constexpr auto reasoning_table = std::to_array<Field>({
    {"effort", choice, optional, nullptr, generation::effort_names},
    {"enabled", flag},
    ignored_field("summary"),
    refused_field("max_tokens", "accepted is effort"),
    refused_field("exclude", "answers have their reasoning; accepted: false", "false"),
});

constexpr auto thinking_table = std::to_array<Field>({
    {"type", choice, required, nullptr, thinking_types},
    refused_field("budget_tokens", "thinking ends where the model ends it; accepted: null"),
    ignored_field("display"),
});

// Asked for by one or more members, which have to agree.
class Asked {
 public:
  void add(std::string member, std::optional<ReasoningEffort> effort) {
    if (!effort) return;
    if (effort_ && *effort_ != *effort) {
      refuse_member(member, fmt::format("and {} are both there, and differ; accepted: one of them", member_));
    }
    if (!effort_) member_ = std::move(member);
    effort_ = effort;
  }

  [[nodiscard]] const std::optional<ReasoningEffort>& effort() const noexcept { return effort_; }

  [[nodiscard]] const std::string& member() const noexcept { return member_; }

 private:
  std::optional<ReasoningEffort> effort_;
  std::string member_;
};

std::optional<ReasoningEffort> effort_in(Members& members, std::string_view name) {
  const auto which = members.choice(name);
  return which ? generation::effort_named(generation::effort_names.at(*which)) : std::nullopt;
}

std::optional<ReasoningEffort> switch_in(Members& members, std::string_view name) {
  if (members.find(name) == nullptr) return std::nullopt;
  return members.flag(name, true) ? ReasoningEffort::usual : ReasoningEffort::none;
}

// {"effort": "high", "enabled": true} asks for the effort.
void add_reasoning(Members& members, Asked& asked) {
  const RequestJson* value = members.find("reasoning");
  if (value == nullptr) return;
  Members reasoning = members.inside(*value, "reasoning", reasoning_table);
  const auto effort = effort_in(reasoning, "effort"), enabled = switch_in(reasoning, "enabled");
  asked.add("reasoning.effort", effort);
  if (!effort || *effort == ReasoningEffort::none || enabled == ReasoningEffort::none) {
    asked.add("reasoning.enabled", enabled);
  }
  reasoning.finish();
}

void add_thinking(Members& members, Asked& asked) {
  const RequestJson* value = members.find("thinking");
  if (value == nullptr) return;
  Members thinking = members.inside(*value, "thinking", thinking_table);
  constexpr std::size_t disabled = 1;
  const auto type = thinking.choice("type");
  asked.add("thinking", type == disabled ? ReasoningEffort::none : ReasoningEffort::usual);
  thinking.finish();
}

}  // namespace

std::span<const Field> reasoning_fields() {
  return fields;
}

std::string read_reasoning(Members& members, ChatOptions& options) {
  Asked asked;
  asked.add("reasoning_effort", effort_in(members, "reasoning_effort"));
  add_reasoning(members, asked);
  add_thinking(members, asked);
  asked.add("enable_thinking", switch_in(members, "enable_thinking"));
  options.reasoning = asked.effort();
  return asked.member();
}

}  // namespace gpux::server
