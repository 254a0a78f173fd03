#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpux/provider_manager.h"
#include "gpux/verdict.h"
#include "provider/request.h"

namespace gpux::provider {

/// What becomes of each provider of a request on a machine.
struct Selection {
  struct Step {
    std::string id;
    ProviderAttempt::Outcome outcome = ProviderAttempt::Outcome::unavailable;  ///< active: chosen
    std::string reason;
    Message remedy;
    bool other_core = false;  ///< it needs another ONNX Runtime than the one that is open
  };

  std::vector<Step> steps;  ///< in the request's order

  /// The chosen ones, in order. Empty where a list names nothing that is available.
  [[nodiscard]] std::vector<std::string> chosen() const;
};

/// Chooses. Pure: the machine is what `reports` say, one for each id of order_of(). `core`: the ONNX Runtime library in
/// use; providers bound to another are refused as such; empty: not decided yet.
/// auto and gpu take the first provider with a hardware accelerator, and its chain; npu the first available;
/// single and list everything available; fastest everything available, as candidates.
Selection select(const Request& request, std::span<const ProviderReport> reports, System system,
                 const std::filesystem::path& core = {});

/// What the verdict says before a session exists: an attempt for each step, and notes on the request and on hardware
/// that auto leaves idle. `reports` as for select(). Pure.
Verdict planned_verdict(const Request& request, const Selection& selection, std::span<const ProviderReport> reports);

/// The library that the first available provider of the request is bound to; empty: any will do.
std::filesystem::path core_for(const Request& request, std::span<const ProviderReport> reports, System system);

}  // namespace gpux::provider
