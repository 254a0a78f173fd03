#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/verdict.h"
#include "isolation/loaded_identity.h"
#include "onnx/stored_caches.h"

namespace gpux::isolation {

/// The model that a worker loads, and how.
struct WorkerLoad {
  std::filesystem::path model;
  LoadOptions options;
  std::vector<std::filesystem::path> files;  ///< with a sandbox: all that the model consists of
};

/// What it reports of the loaded model.
struct LoadReport {
  Verdict verdict;
  /// Whose weights run: 0 for the model's own, n for LoadOptions::precision_variants[n - 1].
  std::size_t weights = 0;
  std::string computed_by;
  std::vector<std::string> output_names;
  std::vector<Runtime::PlacedNode> placement;
  bool uses_pinned_memory = false;  ///< Runtime::uses_pinned_memory()
  LoadedIdentity identity;          ///< the identity of the loaded model
  onnx::StoredCaches stored_caches = {};
};

WorkerLoad worker_load_of(const std::filesystem::path& model, const LoadOptions& options);

/// The request as JSON, and back. Error usage if a path is not UTF-8.
std::string to_json(const WorkerLoad& request);
WorkerLoad worker_load_from(const std::string& json);

std::string to_json(const LoadReport& report);
/// Error internal if it is not a report.
LoadReport load_report_from(const std::string& json);

/// A report without what only this process knows, as how the worker is sandboxed: it runs code of others, and may
/// report anything. `outputs`: of the model; `may_have_pooled`: it may have one more. Error internal if it has others.
/// Pure.
LoadReport believable(LoadReport report, std::span<const SignatureEntry> outputs, bool may_have_pooled);

}  // namespace gpux::isolation
