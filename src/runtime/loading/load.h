#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/verdict.h"
#include "isolation/loaded_identity.h"
#include "onnx/stored_caches.h"
#include "ort/session.h"

namespace gpux::runtime {

/// A session and how it came to be.
struct Loaded {
  std::unique_ptr<ort::Session> session;  ///< until it is given to a ModelSession
  Verdict verdict;
  std::filesystem::path weights_file;    ///< the model's, or its variant's
  std::filesystem::path profile_prefix;  ///< where ONNX Runtime profiles to; empty: it does not
  bool memory_limited_by_provider = false;
  std::uint64_t resident_before_bytes = 0;
  std::string computed_by;  ///< ONNX Runtime, the providers with their versions and options, and the processor
  isolation::LoadedIdentity
      identity;  ///< the same and the verdict, for a comparison with another load; without the files
  onnx::StoredCaches stored_caches;
  bool has_pooled_output = false;  ///< LoadOptions::pooled_output was added
  OptimizedGraph written_graph;    ///< and what it was made for; has no file if none was requested
};

/// Removes the files of profiles that begin with `prefix`; none where it is empty. ONNX Runtime starts a profile for
/// each session that it tries, also for those that come to nothing.
void remove_profiles(const std::filesystem::path& prefix);

/// Surveys the machine, selects, opens the core, makes the one session that works, reads its placement back.
Loaded load(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options);

}  // namespace gpux::runtime
