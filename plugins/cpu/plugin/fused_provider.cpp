#include "plugin/fused_provider.h"

#include <string_view>
#include <vector>

#include "plugin/provider_description.h"
#include "plugin/requested_outputs.h"
#include "plugin/status.h"

namespace gpux_cpu {
namespace {

constexpr const char* run_name_option = "gpux.run";
constexpr const char* stop_run_option = "gpux.stop";
constexpr const char* outputs_option = "gpux.outputs";
constexpr const char* logits_option = "gpux.logits";

}  // namespace

FusedProvider::FusedProvider(const OrtLogger* logger) : OrtEp{}, logger_(logger) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
  OnRunStart = on_run_start;
  OnRunEnd = on_run_end;
  SetDynamicOptions = set_dynamic_options;
}

void FusedProvider::claim_nodes(OrtEpGraphSupportInfo* support, std::span<const OrtNode* const> nodes,
                                bool drop_constants) {
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  options.drop_constant_initializers = drop_constants;
  Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &options));
}

void FusedProvider::log_unclaimed(const std::string& reason) noexcept {
  ORT_CXX_LOGF_NOEXCEPT(logger_, ORT_LOGGING_LEVEL_WARNING, "%s: %s", provider_description().name, reason.c_str());
}

const char* FusedProvider::get_name(const OrtEp* /*self*/) noexcept {
  return provider_description().name;
}

OrtStatus* FusedProvider::get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
  return as_status([=] { static_cast<FusedProvider*>(self)->claim(graph, support); });
}

OrtStatus* FusedProvider::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                                  OrtNodeComputeInfo** compute_infos, OrtNode** context_nodes) noexcept {
  return as_status([=] {
    std::vector<std::unique_ptr<FusedNode>> fused;
    std::vector<Ort::Node> contexts;
    for (std::size_t i = 0; i < count; ++i) {
      Ort::Node& context = contexts.emplace_back(nullptr);
      fused.push_back(static_cast<FusedProvider*>(self)->fuse(graphs[i], fused_nodes[i], context));
    }
    // Handed over only when all are there: what a failed call leaves in the arrays is released by nobody.
    for (std::size_t i = 0; i < count; ++i) {
      compute_infos[i] = fused[i].release();
      if (contexts[i]) context_nodes[i] = contexts[i].release();
    }
  });
}

void FusedProvider::release_compute_infos(OrtEp* /*self*/, OrtNodeComputeInfo** compute_infos,
                                          std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) delete static_cast<FusedNode*>(compute_infos[i]);
}

OrtStatus* FusedProvider::on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept {
  return as_status([=] {
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<FusedProvider*>(self)->runs_.begin(name);
    }
    if (const char* names = Ort::GetApi().GetRunConfigEntry(options, outputs_option)) RequestedOutputs::begin(names);
    const char* const logits = Ort::GetApi().GetRunConfigEntry(options, logits_option);
    if (logits != nullptr && std::string_view(logits) == "all") RequestedOutputs::begin_all_logits();
  });
}

OrtStatus* FusedProvider::on_run_end(OrtEp* self, const OrtRunOptions* options, bool /*sync_stream*/) noexcept {
  return as_status([=] {
    RequestedOutputs::end();
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<FusedProvider*>(self)->runs_.end(name);
    }
  });
}

OrtStatus* FusedProvider::set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                              std::size_t count) noexcept {
  return as_status([=] {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::string_view(keys[i]) == stop_run_option) static_cast<FusedProvider*>(self)->runs_.stop(values[i]);
    }
  });
}

}  // namespace gpux_cpu
