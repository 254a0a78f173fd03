#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpux/options.h"

namespace gpux {

/// Providers, by id, and why they are not used: they crashed or hung when they were tried.
using CrashedProviders = std::vector<std::pair<std::string, std::string>>;

/// Facts about a load that gpux sets, not the caller: origin of the model, crashed providers. Carried by LoadOptions.
struct LoadFacts {
  std::string worker_name;  ///< name of the worker process in messages; empty: the model's name
  /// Where the model's package was pulled from; empty: it is the user's own. The verdict of one that was pulled reports
  /// whether it is sandboxed.
  std::string pulled_from;
  std::string isolation_reason;  ///< why the model runs where it does, for the verdict; may be empty
  CrashedProviders crashed_providers;
  /// Addresses for keys and values that a worker may reserve beyond its limit of memory.
  std::uint64_t cache_address_bytes = 0;
};

inline const LoadFacts& facts_of(const LoadOptions& options) {
  static const LoadFacts none;
  return options.facts ? *options.facts : none;
}

/// Changes the facts of these options by `change(LoadFacts&)`, and not of those that they were copied from.
template <typename Change>
void change_facts(LoadOptions& options, const Change& change) {
  auto facts = std::make_shared<LoadFacts>(facts_of(options));
  change(*facts);
  options.facts = std::move(facts);
}

}  // namespace gpux
