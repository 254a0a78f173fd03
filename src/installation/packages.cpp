#include "installation/packages.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/table.h"

namespace gpux::installation {
namespace {

using Kind = PackageSet::Kind;

// onnxruntime-gpu is of CUDA 13 from 1.27 on, and 1.24 is the oldest that gpux uses. cuDNN needs cuBLAS, which needs
// NVRTC; cuFFT needs nvJitLink.
std::vector<std::string_view> cuda13_libraries() {
  return {"nvidia-cuda-runtime~=13.0", "nvidia-cublas~=13.0",    "nvidia-cuda-nvrtc~=13.0", "nvidia-cufft~=12.0",
          "nvidia-curand~=10.0",       "nvidia-nvjitlink~=13.0", "nvidia-cudnn-cu13~=9.0"};
}

std::vector<std::string_view> cuda12_libraries() {
  return {"nvidia-cuda-runtime-cu12~=12.0", "nvidia-cublas-cu12~=12.0", "nvidia-cuda-nvrtc-cu12~=12.0",
          "nvidia-cufft-cu12~=11.0",        "nvidia-curand-cu12~=10.0", "nvidia-nvjitlink-cu12~=12.0",
          "nvidia-cudnn-cu12~=9.0"};
}

std::vector<std::string_view> together(std::vector<std::string_view> first,
                                       const std::vector<std::string_view>& others) {
  std::ranges::copy(others, std::back_inserter(first));
  return first;
}

std::vector<PackageSet> make_sets() {
  return {
      // Its provider needs version 10 of TensorRT.
      {.name = "tensorrt",
       .provider = "tensorrt",
       .kind = Kind::core,
       .packages = together({"onnxruntime-gpu>=1.27", "tensorrt-cu13-libs~=10.13"}, cuda13_libraries()),
       .needs = "NVIDIA's driver, 580 or newer",
       .cuda = 13},
      {.name = "tensorrt-rtx",
       .provider = "tensorrt-rtx",
       .packages = together({"onnxruntime-ep-nv-tensorrt-rtx-cu13"}, {"nvidia-cuda-runtime~=13.0"}),
       .needs = "NVIDIA's driver, 580 or newer",
       .cuda = 13},
      {.name = "cuda",
       .provider = "cuda",
       .kind = Kind::core,
       .packages = together({"onnxruntime-gpu>=1.27"}, cuda13_libraries()),
       .needs = "NVIDIA's driver, 580 or newer",
       .cuda = 13},
      {.name = "cuda12",
       .provider = "cuda",
       .kind = Kind::core,
       .packages = together({"onnxruntime-gpu>=1.24.1,<1.27"}, cuda12_libraries()),
       .needs = "NVIDIA's driver, 525 or newer",
       .cuda = 12},
      {.name = "migraphx",
       .provider = "migraphx",
       .kind = Kind::core,
       .packages = {"onnxruntime-migraphx"},
       .needs = "AMD's ROCm with MIGraphX"},
      {.name = "openvino", .provider = "openvino", .kind = Kind::core, .packages = {"onnxruntime-openvino>=1.24"}},
      {.name = "openvino-plugin", .provider = "openvino", .packages = {"onnxruntime-ep-openvino"}},
      {.name = "webgpu",
       .provider = "webgpu",
       .packages = {"onnxruntime-ep-webgpu"},
       .needs = "a Vulkan driver and its loader, libvulkan1"},
      {.name = "qnn", .provider = "qnn", .packages = {"onnxruntime-qnn>=2"}, .needs = "a Qualcomm NPU and its driver"},
      {.name = "cann",
       .provider = "cann",
       .kind = Kind::core,
       .packages = {"onnxruntime-cann>=1.24"},
       .needs = "Huawei's CANN toolkit"},
      {.name = "cpu", .provider = "cpu", .kind = Kind::core, .packages = {"onnxruntime>=1.24.1"}},
  };
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const PackageSet& set : package_sets()) all.emplace_back(set.name);
  return all;
}

[[noreturn]] void refuse_provider(const provider::ProviderRow& row) {
  if (std::ranges::find(row.systems, "linux") == row.systems.end()) {
    throw Error(ErrorCode::provider_unavailable,
                fmt::format("cannot install {}: it {}", row.id, provider::other_systems(row)));
  }
  throw Error(ErrorCode::usage, fmt::format("cannot install {}: no Python package brings it; {}", row.id, row.remedy));
}

}  // namespace

std::span<const PackageSet> package_sets() {
  static const std::vector<PackageSet> sets = make_sets();
  return sets;
}

Wanted parse_wanted(std::string_view text) {
  const std::size_t at = text.find('@');
  Wanted wanted{.name = std::string(text.substr(0, at)), .version = {}};
  if (at != std::string_view::npos) wanted.version = text.substr(at + 1);
  const bool is_whole = !wanted.name.empty() && (at == std::string_view::npos || !wanted.version.empty());
  // It becomes a part of a requirement, and a folder's name.
  const bool is_plain = std::ranges::all_of(
      wanted.version, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '+'; });
  if (!is_whole || !is_plain || wanted.version.starts_with('.')) {
    throw Error(
        ErrorCode::usage,
        fmt::format("'{}' names no provider to install; accepted: NAME or NAME@VERSION, as webgpu@0.4.0", text));
  }
  return wanted;
}

const PackageSet& find_package_set(std::string_view name) {
  const std::string wanted = lower(name);
  const provider::ProviderRow* row = provider::find_row(wanted);
  for (const PackageSet& set : package_sets()) {
    if (set.name == wanted || (row != nullptr && set.name == row->id)) return set;
  }
  if (row != nullptr) refuse_provider(*row);
  const std::vector<std::string> known = names();
  const std::string_view near = nearest(wanted, known);
  throw Error(ErrorCode::usage,
              fmt::format("'{}' is no provider that can be installed{}; accepted: {}", name,
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(known)));
}

std::vector<std::string> requirements_of(const PackageSet& set, const std::string& version) {
  std::vector<std::string> requirements(set.packages.begin(), set.packages.end());
  if (!version.empty()) requirements.front() = fmt::format("{}=={}", package_name(set.packages.front()), version);
  return requirements;
}

std::string package_name(std::string_view requirement) {
  std::string name = lower(requirement.substr(0, requirement.find_first_of("<>=!~[ ;")));
  for (char& c : name) {
    if (c == '_' || c == '.') c = '-';
  }
  return name;
}

}  // namespace gpux::installation
