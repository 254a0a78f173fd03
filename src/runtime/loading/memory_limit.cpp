#include "runtime/loading/memory_limit.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::runtime {
namespace {

bool runs_on_an_accelerator(const Verdict& verdict) {
  return std::ranges::any_of(verdict.tried, [](const ProviderAttempt& attempt) {
    return attempt.outcome == ProviderAttempt::Outcome::active && attempt.id != "cpu" &&
           std::ranges::any_of(attempt.devices, [](const Device& device) { return device.kind != "cpu"; });
  });
}

}  // namespace

void keep_memory_limit(const LoadOptions& options, bool limited_by_provider, Verdict& verdict,
                       const std::function<void()>& measure) {
  if (!options.memory_bytes || limited_by_provider) return;
  if (!runs_on_an_accelerator(verdict)) return measure();
  const std::string note = fmt::format(
      "memory limit not enforced: {} has none of its own, and its memory cannot be measured", join(verdict.active));
  if (options.strict != Strictness::off) throw Error(ErrorCode::provider_unavailable, "strict: " + note);
  verdict.notes.emplace_back(note);
}

}  // namespace gpux::runtime
