#pragma once

#include <optional>
#include <string>

#include "server/models/served_model.h"

/// Whether and how long a model thinks before it answers, as requests ask for it.
namespace gpux::server {

struct ReasoningChoice {
  std::optional<bool> thinks;  ///< empty: as the model does by itself
  bool is_wish = false;        ///< `thinks` holds where the model can be told; nobody asked for it by name
  std::string effort;          ///< "low", "high", …; empty: as the model does by itself
  std::string thinks_member;   ///< of the request, for errors: "thinking"
  std::string effort_member;   ///< "reasoning.effort"
};

/// ChatOptions::template_values that make the model do so; empty: none are needed. RequestError where the model cannot
/// be told.
std::string reasoning_values(const ReasoningChoice& choice, const ServedModel& model);

}  // namespace gpux::server
