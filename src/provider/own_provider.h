#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/options.h"
#include "gpux/verdict.h"

namespace gpux::provider {

/// Whether the provider is one of gpux's own, which compute on processors: encoder, decoder.
bool is_own(std::string_view id) noexcept;

/// The least cosine of its outputs to the CPU provider's, of each sample: of other kernels with the same arithmetic.
inline constexpr double min_agreement = 0.999;

/// Why its outputs were not compared, or that they do not agree; empty: they do. Pure.
std::string disagreement(const ComparedProvider& compared);

/// Why the provider does not run the whole model of this verdict; empty: it does. Pure.
std::string missing_part(const Verdict& verdict, std::string_view id);

/// What auto looks at before it takes a provider of gpux's own in place of the CPU provider.
struct OwnProviderFacts {
  std::string unavailable;  ///< why it cannot be used on this machine; empty: it can
  bool has_fast_kernels = false;
  std::string asked_precision, model_precision;  ///< asked_precision empty: the model's own
  std::uint64_t model_bytes = 0;                 ///< with its weights
  std::uint64_t memory_bytes = 0;                ///< that this process may use, or the limit on the model's memory
};

/// Why auto does not take the provider; empty: it does. Whether it claims the whole model is seen in the session, and
/// whether there is an accelerator before. Pure.
std::string reason_against(const ComparedProvider& compared, const OwnProviderFacts& facts);

/// The note of a verdict whose provider auto took so. Pure.
Message note_of(const ComparedProvider& compared);

/// Adds to the verdict of the load that packaged the model what auto does with later ones; nothing where it was not
/// compared.
void note_packaged(const std::optional<ComparedProvider>& compared, Verdict& verdict);

}  // namespace gpux::provider
