#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/verdict.h"
#include "ort/session.h"
#include "runtime/loading/loaded_identity.h"

namespace gpux::runtime {

/// A session and how it came to be.
struct Loaded {
  std::unique_ptr<ort::Session> session;  ///< null: it is in a worker process
  Verdict verdict;
  std::filesystem::path weights_file;    ///< the model's, or its variant's
  std::filesystem::path profile_prefix;  ///< where ONNX Runtime profiles to; empty: it does not
  bool memory_limited_by_provider = false;
  std::uint64_t resident_before_bytes = 0;
  std::string computed_by;  ///< ONNX Runtime, the providers with their versions and options, and the processor
  LoadedIdentity identity;  ///< the same and the verdict, for a comparison with another load; without the files
  std::set<std::string> float16_values;  ///< inputs and outputs that are float32 in the file
  bool has_pooled_output = false;        ///< LoadOptions::pooled_output was added
  OptimizedGraph written_graph;          ///< and what it was made for; has no file if none was requested
};

/// Ends the profile of a load that comes to nothing after all, and removes its file.
void discard_profile(Loaded& loaded);

/// Surveys the machine, selects, opens the core, makes the one session that works, reads its placement back.
Loaded load(const std::filesystem::path& model, const ModelInfo& info, const LoadOptions& options);

}  // namespace gpux::runtime
