#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/chat.h"

/// How much a model thinks, as Anthropic's clients ask for it. Source: Anthropic's API reference, "Create a Message",
/// members thinking and output_config.effort.
namespace gpux::server::anthropic {

/// The member "thinking".
enum class Thinking : std::uint8_t {
  absent,
  enabled,
  disabled,
  adaptive,  ///< the model decides
};

/// ChatOptions::reasoning, and the member of the request that it comes from.
struct AskedReasoning {
  std::optional<ReasoningEffort> effort;
  std::string member;

  bool operator==(const AskedReasoning&) const = default;
};

/// What a model with this template is asked for. Without "thinking" it does not think, as Anthropic's models do not, if
/// it can be told. `effort`: of output_config; high is what Anthropic's models do by themselves, so that it is left out
/// where the template has no levels. With thinking disabled it changes nothing. Pure.
[[nodiscard]] AskedReasoning asked_reasoning(Thinking thinking, const std::optional<ReasoningEffort>& effort,
                                             std::string_view template_text);

}  // namespace gpux::server::anthropic
