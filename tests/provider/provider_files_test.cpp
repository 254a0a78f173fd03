// Libraries that are told apart by what they export, and the libraries that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "provider/probe.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr const char* gpu = R"(
env HOME=/home/somebody
env PATH=/usr/local/bin
/usr/local/bin/python3
/dev/nvidiactl
/dev/nvidia0
/usr/lib/libcudnn.so.9
/usr/lib/libcudart.so.13
)";
const std::string packages = "/usr/local/lib/python3.12/site-packages/";
const std::string core_file = packages + "onnxruntime/capi/libonnxruntime.so.1.31.1\n";

void put(const MadeMachine& machine, const std::string& made, const std::string& path) {
  const fs::path file = machine->at(path);
  fs::create_directories(file.parent_path());
  fs::copy_file(fs::path(PROVIDER_FOLDER) / ("lib" + made + ".so"), file);
}

ProviderReport report_of(const std::string& id, const Machine& machine) {
  const std::vector<std::string> ids{id};
  return survey(ids, ort::find_cores(machine), find_plugins({}, machine), machine).front();
}

// Whatever the file is called, and wherever it is.
TEST(CudaLibrary, IsABridgeOrAPluginByWhatItExports) {
  struct Case {
    const char* made;
    std::string path;
    const char* source;
    const char* note;
    const char* reason;
  };

  const std::string name = "libonnxruntime_providers_cuda.so", older = "libonnxruntime_providers_cuda_plugin.so";
  const Case cases[] = {
      {"made_bridge", packages + "onnxruntime/capi/" + name, "bridge", "", ""},
      {"made_bridge_and_plugin", packages + "onnxruntime/capi/" + name, "bridge", "it is used as a bridge", ""},
      {"made_plugin", packages + "onnxruntime/capi/" + name, "plugin", "", ""},
      {"made_plugin", packages + "onnxruntime_ep_cuda/" + name, "plugin", "", ""},
      {"made_plugin", packages + "onnxruntime_ep_cuda13/" + older, "plugin", "", ""},
      {"made_bridge_and_plugin", packages + "onnxruntime_ep_cuda/" + name, "plugin", "it is used as a plugin", ""},
      {"made_plugin", "/home/somebody/.gpux/providers/" + name, "plugin", "", ""},
      {"made_bridge", "/home/somebody/.gpux/providers/" + name, "plugin", "", "GetProvider, not CreateEpFactories"},
      {"made_bridge", packages + "onnxruntime_ep_cuda/" + name, "", "", "not installed"},
      {"made_neither", packages + "onnxruntime_ep_cuda/" + name, "", "", "not installed"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.made) + " as " + one.path);
    const MadeMachine machine(gpu + core_file);
    put(machine, one.made, one.path);
    const ProviderReport report = report_of("cuda", machine);
    EXPECT_EQ(report.source, one.source);
    EXPECT_THAT(report.note, HasSubstr(one.note));
    EXPECT_EQ(report.note.empty(), *one.note == '\0');
    EXPECT_THAT(report.reason, HasSubstr(one.reason));
    EXPECT_EQ(report.available, *one.reason == '\0');
    EXPECT_EQ(report.core.empty(), report.source != "bridge");
    // A plugin next to an ONNX Runtime library does not bind it.
    EXPECT_EQ(ort::find_cores(machine).front().bridges.empty(), report.source != "bridge");
  }
}

TEST(CudaLibrary, IsNotListedTwice) {
  const MadeMachine machine(gpu + core_file);
  put(machine, "made_plugin", packages + "onnxruntime_ep_cuda/libonnxruntime_providers_cuda.so");
  EXPECT_THAT(own_names(find_plugins({}, machine)), IsEmpty());
}

// Another environment comes first in the search for Python packages, and may have libraries of another CUDA.
TEST(VendorLibraries, ComeFromTheEnvironmentOfTheOnnxRuntimeThatNeedsThem) {
  const std::string other = "/opt/venv/lib/python3.12/site-packages/nvidia/";
  const MadeMachine made(std::string("env HOME=/home/somebody\nenv PATH=/usr/local/bin\nenv VIRTUAL_ENV=/opt/venv\n"
                                     "/usr/local/bin/python3\n/dev/nvidiactl\n/dev/nvidia0\n/usr/lib/libcudnn.so.9\n") +
                         core_file + other + "cudnn/lib/libcudnn.so.9\n" + other + "cu13/lib/libcudart.so.13\n" +
                         other + "cu13/lib/libnvrtc.so.13\n" + packages + "nvidia/cudnn/lib/libcudnn.so.9\n" +
                         packages + "nvidia/cu13/lib/libcudart.so.13\n" + packages +
                         "nvidia/cu13/lib/libnvrtc.so.13\n");
  put(made, "made_bridge_and_plugin", packages + "onnxruntime/capi/libonnxruntime_providers_cuda.so");
  std::vector<std::string> opened;
  Machine machine = made;
  machine.opens_library = [&, opens = machine.opens_library](const fs::path& library) {
    if (opens(library)) opened.push_back(library.lexically_relative(machine.at(packages)).string());
    return opens(library);
  };
  const ProviderReport report = report_of("cuda", machine);
  EXPECT_TRUE(report.available) << report.reason;
  EXPECT_THAT(opened, ElementsAre("nvidia/cu13/lib/libcudart.so.13", "nvidia/cudnn/lib/libcudnn.so.9",
                                  "nvidia/cu13/lib/libnvrtc.so.13"));
}

// A package is searched for what exports CreateEpFactories; what it is called does not matter.
TEST(PythonPackages, BringPluginsOfAnyName) {
  struct Case {
    const char* made;
    const char* path;
    const char* name;  ///< empty: no plugin
    const char* row;   ///< empty: none stands for it
  };

  const Case cases[] = {
      {"made_plugin", "onnxruntime_ggml/lib/libonnxruntime_ggml.so", "ggml", ""},
      {"made_plugin", "onnxruntime_ep_vulkan/libonnxruntime_vulkan_ep.so", "vulkan", ""},
      {"made_plugin", "onnxruntime_qnn/libonnxruntime_providers_qnn.so", "qnn", "qnn"},
      {"made_plugin", "onnxruntime_ep_webgpu/libonnxruntime_providers_webgpu.so", "webgpu", "webgpu"},
      {"made_plugin", "onnxruntime_ep_webgpu/libanother.so", "webgpu", "webgpu"},
      {"made_plugin", "onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so", "openvino", "openvino"},
      {"made_plugin", "onnxruntime_ep_nv_tensorrt_rtx/libonnxruntime_providers_nv_tensorrt_rtx.so", "nv-tensorrt-rtx",
       "tensorrt-rtx"},
      {"made_plugin", "onnxruntime_ep_mlx/libonnxruntime_mlx_ep.dylib", "mlx", "mlx"},
      {"made_plugin", "onnxruntime_ep_cuda12/libonnxruntime_providers_cuda_plugin.so", "cuda12", "cuda"},
      {"made_plugin", "onnxruntime_ep_amdgpu/libonnxruntime_providers_amdgpu.so", "amdgpu", "migraphx"},
      {"made_neither", "onnxruntime_extensions/libextensions.so", "", ""},
      {"made_plugin", "onnxruntime_ggml.libs/libgomp.so", "", ""},
      {"made_plugin", "another_package/libonnxruntime_providers_x.so", "", ""},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.path);
    const MadeMachine machine(gpu + core_file);
    put(machine, one.made, packages + one.path);
    const std::vector<PluginFile> plugins = find_plugins({}, machine);
    ASSERT_EQ(plugins.size(), *one.name == '\0' ? 0U : 1U);
    if (plugins.empty()) continue;
    EXPECT_EQ(plugins.front().name, one.name);
    EXPECT_EQ(own_names(plugins).empty(), *one.row != '\0');
    const std::string id = *one.row == '\0' ? one.name : one.row;
    const ProviderReport report = report_of(id, machine);
    EXPECT_EQ(report.source, "plugin");
    EXPECT_EQ(report.library, plugins.front().library);
    if (*one.row == '\0') {
      EXPECT_THAT(report.description, HasSubstr("of the Python package onnxruntime_"));
      EXPECT_EQ(report.reason, "");
    }
  }
}

// Libraries of a driver are missing where there is nothing to drive.
TEST(PythonPackages, WithoutTheirHardwareDoNotAskForItsDriver) {
  for (const bool has_gpu : {false, true}) {
    const MadeMachine machine("env HOME=/home/somebody\nenv PATH=/usr/local/bin\n/usr/local/bin/python3\n" +
                              std::string(has_gpu ? "/dev/nvidiactl\n" : "") + core_file);
    put(machine, "made_bridge_and_plugin",
        packages + "onnxruntime_ep_nv_tensorrt_rtx/libonnxruntime_providers_nv_tensorrt_rtx.so");
    const ProviderReport report = report_of("tensorrt-rtx", machine);
    EXPECT_FALSE(report.available);
    EXPECT_EQ(report.reason, has_gpu
                                 ? "libcudart.so.13: not found (libonnxruntime_providers_nv_tensorrt_rtx.so needs it)"
                                 : "no NVIDIA GPU on this machine");
    EXPECT_EQ(report.remedy.empty(), !has_gpu);
  }
}

TEST(PythonPackages, WithSeveralPluginsHaveANameForEach) {
  const MadeMachine machine(gpu + core_file);
  put(machine, "made_plugin", packages + "onnxruntime_two/libfirst.so");
  put(machine, "made_plugin", packages + "onnxruntime_two/libsecond.so");
  put(machine, "made_neither", packages + "onnxruntime_two/libthird.so");
  EXPECT_THAT(own_names(find_plugins({}, machine)), ElementsAre("two-libfirst", "two-libsecond"));
}

TEST(NnapiFlags, AreTheSumOfTheOptions) {
  EXPECT_EQ(ort::nnapi_flags({}), 0U);
  EXPECT_EQ(ort::nnapi_flags({{"use_fp16", "1"}, {"cpu_disabled", "1"}}), 5U);
  EXPECT_EQ(ort::nnapi_flags({{"use_fp16", "0"}, {"use_nchw", "1"}, {"cpu_only", "1"}}), 10U);
}

}  // namespace
}  // namespace gpux::provider
