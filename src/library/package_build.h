#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/made_variant.h"
#include "gpux/verdict.h"
#include "model/load_settings.h"
#include "store/store.h"

namespace gpux {

/// Arguments of `gpux build`, as typed.
struct BuildRequest {
  std::string path = ".", config;
  std::vector<std::string> tags;  ///< NAME[:TAG]; none: gpux.yml's name and version, and latest
  LoadRequest load;
  evaluation::QuantizeFlags quantize;
  bool optimize = false;  ///< keep the optimized graph too
};

/// An engine that a provider compiled ahead of time, in the cache of this machine.
struct CompiledEngine {
  std::string provider;          ///< id
  std::filesystem::path folder;  ///< empty: it is kept nowhere
  std::uint64_t bytes = 0;
};

struct BuiltPackage {
  StoredModel stored;
  std::vector<Reference> names;
  Verdict verdict;
  std::optional<evaluation::MadeVariant> variant;
  /// With LoadRequest::shapes; empty without, and where the provider is not on this machine.
  std::optional<CompiledEngine> engine;
};

/// Checks a model with its gpux.yml by loading it, and stores it. Errors usage (it is stored already, a name),
/// not_found, invalid_model, invalid_config, storage; of Runtime and evaluation::make_variant().
BuiltPackage build_package(const BuildRequest& request, Store& store, const evaluation::VariantListener& listener = {});

}  // namespace gpux
