#include "installation/package_choice.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "ort/core_search.h"
#include "provider/nvml.h"
#include "provider/probe.h"
#include "provider/table.h"

namespace gpux::installation {
namespace {

/// onnxruntime-gpu is for CUDA 13 from this version on.
constexpr std::string_view first_of_cuda13 = "1.27";
/// CUDA 13 has no code for older GPUs.
constexpr unsigned oldest_capability_of_cuda13 = 75;

constexpr const char* update_driver = "sudo apt install nvidia-driver";

// Why the machine's driver or GPUs do not support the CUDA; empty where they do, or nothing is known.
std::string obstacle(unsigned cuda, const MachineFacts& facts) {
  if (!facts.nvidia_driver.empty() && provider::is_older(facts.nvidia_driver, provider::oldest_driver(cuda))) {
    return fmt::format("CUDA {} needs NVIDIA's driver {} or newer, and the one here is {}", cuda,
                       provider::oldest_driver(cuda), facts.nvidia_driver);
  }
  const unsigned capability = facts.min_compute_capability;
  if (cuda == 13 && capability != 0 && capability < oldest_capability_of_cuda13) {
    return fmt::format("CUDA 13 needs GPUs of compute capability 7.5 or newer, and there is one of {}.{} here",
                       capability / 10, capability % 10);
  }
  return {};
}

std::string fitting_words(unsigned cuda, const MachineFacts& facts) {
  if (facts.nvidia_driver.empty()) {
    return fmt::format("for CUDA {}, which needs NVIDIA's driver {} or newer; no driver tells its version here", cuda,
                       provider::oldest_driver(cuda));
  }
  return fmt::format("for CUDA {}, which NVIDIA's driver {} supports", cuda, facts.nvidia_driver);
}

[[noreturn]] void refuse(const PackageSet& set, const std::string& why, const std::string& next) {
  throw Error(ErrorCode::provider_unavailable, fmt::format("cannot install {}: {}; next: {}", set.name, why, next));
}

// The set of CUDA's packages that the wanted version is of: empty version: the one of that name.
const PackageSet& set_of_version(const PackageSet& named, const std::string& version) {
  const bool is_cuda = named.provider == "cuda";
  if (!is_cuda || version.empty()) return named;
  const bool is_of_12 = provider::is_older(version, first_of_cuda13);
  if (is_of_12 == (named.cuda == 12)) return named;
  if (is_of_12) return find_package_set("cuda12");
  throw Error(ErrorCode::usage, fmt::format("cannot install cuda12@{0}: onnxruntime-gpu is for CUDA 13 from {1} on; "
                                            "accepted: cuda12 with an older version, cuda@{0}",
                                            version, first_of_cuda13));
}

PackageChoice choose_cuda(const PackageSet& named, const Wanted& wanted, const MachineFacts& facts) {
  const PackageSet& set = set_of_version(named, wanted.version);
  const std::string why = obstacle(set.cuda, facts);
  if (why.empty() && &set == &named) return {.set = &set, .reason = fitting_words(set.cuda, facts)};
  if (why.empty()) {
    return {.set = &set,
            .reason = fmt::format("onnxruntime-gpu {} is for CUDA 12, and with it its libraries", wanted.version)};
  }
  const bool has_older = set.cuda == 13 && obstacle(12, facts).empty();
  if (!has_older) refuse(set, why, update_driver);
  const PackageSet& older = find_package_set("cuda12");
  if (set.name != "cuda" || !wanted.version.empty()) refuse(set, why, "gpux providers install cuda12");
  return {.set = &older, .reason = fmt::format("instead of cuda: {}", why)};
}

// A plugin works with an ONNX Runtime that is new enough for it.
PackageChoice choose_plugin(const PackageSet& set, const MachineFacts& facts) {
  const provider::ProviderRow* row = provider::find_row(set.provider);
  if (row == nullptr || row->oldest_core.empty()) return {.set = &set, .reason = {}};
  const std::string needs = fmt::format("a plugin for ONNX Runtime {} or newer", row->oldest_core);
  if (facts.core.empty()) return {.set = &set, .reason = needs};
  if (provider::is_older(facts.core, row->oldest_core)) {
    refuse(set, fmt::format("it is {}, and the one here is {}", needs, facts.core), "gpux providers install cpu");
  }
  return {.set = &set, .reason = fmt::format("{}; the one here is {}", needs, facts.core)};
}

}  // namespace

PackageChoice choose_packages(const Wanted& wanted, const MachineFacts& facts) {
  const PackageSet& named = find_package_set(wanted.name);
  PackageChoice choice{.set = &named, .reason = {}};
  if (named.cuda != 0) choice = choose_cuda(named, wanted, facts);
  if (choice.set->kind != PackageSet::Kind::plugin) return choice;
  PackageChoice as_plugin = choose_plugin(*choice.set, facts);
  if (choice.reason.empty()) return as_plugin;
  if (!as_plugin.reason.empty()) choice.reason = fmt::format("{}; {}", choice.reason, as_plugin.reason);
  return choice;
}

MachineFacts machine_facts(const Machine& machine) {
  MachineFacts facts;
  const provider::NvmlReport nvml = provider::read_nvml(machine);
  if (nvml.failure.empty()) facts.nvidia_driver = nvml.driver;
  for (const provider::NvmlDevice& device : nvml.devices) {
    const unsigned capability = device.compute_capability;
    if (capability == 0) continue;
    const unsigned least = facts.min_compute_capability;
    facts.min_compute_capability = least == 0 ? capability : std::min(least, capability);
  }
  // The one that a request of a plugin opens: the first that is nobody's bridge, or else the first.
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  const auto plain = std::ranges::find_if(cores, [](const ort::CoreFile& core) { return core.bridges.empty(); });
  if (!cores.empty()) facts.core = plain == cores.end() ? cores.front().version : plain->version;
  return facts;
}

}  // namespace gpux::installation
