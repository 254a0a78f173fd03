#pragma once

#include <filesystem>
#include <string>

#include "gpux/options.h"
#include "isolation/loaded_identity.h"
#include "ort/session.h"
#include "runtime/loading/load_plan.h"

/// What a load depends on besides the model: the key of optimized graphs, of kept results, and of later loads.
namespace gpux::runtime {

/// Everything besides the model that its answers depend on, as a text: Loaded::computed_by.
std::string computed_by(const Plan& plan, const LoadOptions& options);

/// The same for another process that loads the model again: libraries count by their content. `loaded`: the ONNX file
/// that runs.
isolation::LoadedIdentity identity_of(const Plan& plan, const LoadOptions& options,
                                      const std::filesystem::path& loaded);

/// The one of LoadOptions::optimized_graphs that was made for exactly this choice; null: there is none.
const OptimizedGraph* graph_for(const Plan& plan, const LoadOptions& options);

/// The graph that the session wrote to SessionSettings::optimized_model; empty where it was to write none. Errors usage
/// and provider_unavailable where it cannot be used: not all providers write what they compile, or can read it.
OptimizedGraph written_graph(const Plan& plan, const LoadOptions& options, ort::SessionSettings settings);

}  // namespace gpux::runtime
