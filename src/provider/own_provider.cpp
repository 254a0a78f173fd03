#include "provider/own_provider.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/memory_size.h"

namespace gpux::provider {
namespace {

// The model's weights are there twice while they are packed.
constexpr std::uint64_t times_in_memory = 2;

}  // namespace

bool is_own(std::string_view id) noexcept {
  return id == "encoder" || id == "decoder";
}

std::string missing_part(const Verdict& verdict, std::string_view id) {
  if (verdict.active.size() == 1 && verdict.active.front() == id) return {};
  const auto attempt = std::ranges::find(verdict.tried, id, &ProviderAttempt::id);
  if (attempt == verdict.tried.end()) return "it was not tried";
  return attempt->reason.empty() ? fmt::format("it claims {} of {} nodes", attempt->node_count, verdict.node_count)
                                 : attempt->reason;
}

std::string disagreement(const ComparedProvider& compared) {
  if (!compared.difference.empty()) return compared.difference;
  // Not of a package whose author wrote another number, or none.
  if (!(compared.agreement >= min_agreement)) {
    return fmt::format("the least cosine of its outputs to the CPU provider's is {:.4f}, below {}", compared.agreement,
                       min_agreement);
  }
  return {};
}

std::string reason_against(const ComparedProvider& compared, const OwnProviderFacts& facts) {
  if (std::string reason = disagreement(compared); !reason.empty()) return reason;
  if (!facts.unavailable.empty()) return facts.unavailable;
  if (!facts.has_fast_kernels) return "without AVX2 it is slower than the CPU provider";
  if (!facts.asked_precision.empty() && facts.asked_precision != facts.model_precision) {
    return fmt::format("{} is asked for, and its outputs were compared in the model's own precision",
                       facts.asked_precision);
  }
  if (facts.model_bytes > facts.memory_bytes / times_in_memory) {
    return fmt::format("its weights of {} are in memory twice while it packs them, and there are {}",
                       format_bytes(facts.model_bytes), format_bytes(facts.memory_bytes));
  }
  return {};
}

Message note_of(const ComparedProvider& compared) {
  return format_message(
      "{} is gpux's own, and was compared with the CPU provider (least cosine {}); {} cpu for ONNX "
      "Runtime's",
      compared.provider, compared.agreement, setting_named("provider"));
}

void note_packaged(const std::optional<ComparedProvider>& compared, Verdict& verdict) {
  if (!compared) return;
  const std::string reason = disagreement(*compared);
  verdict.notes.emplace_back(reason.empty() ? fmt::format("auto takes {} once the package is loaded (least cosine {})",
                                                          compared->provider, compared->agreement)
                                            : fmt::format("auto does not take {}: {}", compared->provider, reason));
}

}  // namespace gpux::provider
