#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>

#include "gpux/options.h"

namespace gpux::test {

/// The WebGPU plugin on a software Vulkan device, within this process. A reason to skip a test, or empty: from now on
/// the plugin finds the device. `folder`: of the parts that scripts/setup fetches.
inline std::string use_software_vulkan(const std::filesystem::path& folder) {
  const std::filesystem::path loader = folder / "vulkan/libvulkan.so.1";
  if (!std::filesystem::exists(loader) || !std::filesystem::exists(folder / "webgpu")) {
    return "no WebGPU plugin or software Vulkan in " + folder.string() + ": scripts/setup fetches them";
  }
  // The plugin opens it by its name.
  if (::dlopen(loader.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return ::dlerror();
  ::setenv("VK_ICD_FILENAMES", (folder / "vulkan/vk_swiftshader_icd.json").c_str(), 1);
  ::setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 1);
  return {};
}

/// Loads a model onto it.
inline LoadOptions on_software_vulkan(const std::filesystem::path& folder) {
  LoadOptions options;
  options.provider = "webgpu";
  options.provider_libraries = {{"webgpu", folder / "webgpu/libonnxruntime_providers_webgpu.so"}};
  options.intra_threads = 1;
  return options;
}

}  // namespace gpux::test
