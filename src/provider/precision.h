#pragma once

#include <span>
#include <string>
#include <vector>

#include "provider/options.h"

/// In which precision a provider computes a float32 model, and how it is set. `tf32_is_off`: CommonOptions. Pure.
namespace gpux::provider {

/// What is left to choose beside what was said by the provider's own names; empty where there is no choice.
[[nodiscard]] std::vector<std::string> precisions_of(const ProviderRow& row, bool tf32_is_off,
                                                     const ResolvedOptions& options);

/// `own` was given for just this provider, `common` for all. Error usage where it has no counterpart for `own`.
void set_precision(const ProviderRow& row, const std::string& own, const std::string& common, bool tf32_is_off,
                   ResolvedOptions& options);

/// What the options amount to, from any source: a precision that they do not keep is not reported as set.
void settle_precision(const ProviderRow& row, bool tf32_is_off, bool as_plugin, std::span<const Device> devices,
                      ResolvedOptions& options);

}  // namespace gpux::provider
