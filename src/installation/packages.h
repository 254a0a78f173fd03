#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::installation {

/// The Python packages that bring a provider. They are installed without their dependencies, most of which are for
/// Python alone: `packages` names every one whose files a provider needs.
struct PackageSet {
  enum class Kind : unsigned char {
    core,    ///< an ONNX Runtime with the provider as its bridge, or with no more than the CPU
    plugin,  ///< a plugin, for the ONNX Runtime that is there
  };
  std::string_view name;                   ///< to be typed: the provider's id, or that with what is different about it
  std::string_view provider;               ///< id in the table of providers
  Kind kind = Kind::plugin;                //
  std::vector<std::string_view> packages;  ///< requirements as of pip; the first brings the provider
  std::string_view needs = {};             ///< what no package brings
  unsigned cuda = 0;                       ///< the release of CUDA that all of them are for; 0: none
};

/// All of them, in the order of the table of providers.
std::span<const PackageSet> package_sets();

/// A package set to install, with its version if requested: "cuda", "webgpu@0.4.0".
struct Wanted {
  std::string name;
  std::string version;  ///< version of the first package; empty: the newest
};

/// Parses NAME or NAME@VERSION. Error usage if the name is missing or the version is empty.
Wanted parse_wanted(std::string_view text);

/// By name or any name of the provider. Error usage for an unknown name, which proposes the nearest, and for providers
/// that no package brings; provider_unavailable for those of other systems.
const PackageSet& find_package_set(std::string_view name);

/// The requirements, with the version for the first package.
std::vector<std::string> requirements_of(const PackageSet& set, const std::string& version);

/// Normalized name of a requirement: "nvidia-cudnn-cu13" for "nvidia_cudnn_cu13>=9".
std::string package_name(std::string_view requirement);

}  // namespace gpux::installation
