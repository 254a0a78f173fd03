#include "provider/absence.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"

namespace gpux::provider {
namespace {

using Outcome = ProviderAttempt::Outcome;

bool is_active(const Verdict& verdict, const ProviderAttempt& attempt) {
  return std::ranges::find(verdict.active, attempt.id) != verdict.active.end();
}

// Attempts at what the request names; its fallbacks and the CPU are not named.
std::vector<const ProviderAttempt*> named_attempts(const Verdict& verdict) {
  const std::string request = lower(verdict.requested);
  if (request == "auto" || request == "fastest") return {};
  const bool is_single = request.find(',') == std::string::npos && request != "gpu" && request != "npu";
  std::vector<const ProviderAttempt*> named;
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.id != "cpu") named.push_back(&attempt);
    if (is_single) break;
  }
  return named;
}

Absence::Cause cause_of(const std::vector<const ProviderAttempt*>& named) {
  const auto is_any = [&](Outcome outcome) {
    return std::ranges::find(named, outcome, &ProviderAttempt::outcome) != named.end();
  };
  if (is_any(Outcome::failed)) return Absence::Cause::failed;
  return is_any(Outcome::no_nodes) ? Absence::Cause::no_nodes : Absence::Cause::unavailable;
}

}  // namespace

std::optional<Absence> absence_of(const Verdict& verdict) {
  const std::vector<const ProviderAttempt*> named = named_attempts(verdict);
  const auto runs = [&](const ProviderAttempt* attempt) { return is_active(verdict, *attempt); };
  if (named.empty() || std::ranges::any_of(named, runs)) return std::nullopt;
  const Absence::Cause cause = cause_of(named);
  if (named.size() == 1) {
    return Absence{fmt::format("{} did not run: {}", named.front()->id, named.front()->reason), named.front()->remedy,
                   cause};
  }
  const bool is_list = verdict.requested.find(',') != std::string::npos;
  Absence absence{fmt::format("nothing of '{}' ran", verdict.requested), Message("gpux doctor"), cause};
  for (const ProviderAttempt* attempt : named) {
    // What a kind stands for and is not here would only be noise.
    if (is_list || attempt->outcome == Outcome::failed || attempt->outcome == Outcome::no_nodes) {
      absence.reason += fmt::format("; {}: {}", attempt->id, attempt->reason);
    }
  }
  return absence;
}

Message to_line(const Absence& absence) {
  return absence.remedy.empty() ? Message(absence.reason)
                                : format_message("{}; remedy: {}", absence.reason, absence.remedy);
}

}  // namespace gpux::provider
