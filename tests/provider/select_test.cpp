#include "provider/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/spelling.h"
#include "provider/table.h"

namespace gpux::provider {
namespace {

using Outcome = ProviderAttempt::Outcome;

constexpr const char* plain_core = "/opt/plain/libonnxruntime.so.1";
constexpr const char* gpu_core = "/opt/gpu/libonnxruntime.so.1";
constexpr const char* openvino_core = "/opt/openvino/libonnxruntime.so.1";

/// A provider that a machine has; every other one is not installed there.
struct Has {
  const char* id;
  bool accelerated = true;
  const char* core = "";
};

struct Machine {
  const char* name;
  System system;
  std::vector<Has> providers;
};

std::vector<ProviderReport> reports_of(const Machine& machine) {
  std::vector<ProviderReport> reports;
  for (const ProviderRow& row : table()) {
    ProviderReport report;
    report.id = row.id;
    report.reason = "not installed";
    report.remedy = Message("install it");
    for (const Has& has : machine.providers) {
      if (has.id != row.id) continue;
      report.available = true;
      report.accelerated = has.accelerated;
      report.core = has.core;
      report.reason.clear();
      report.remedy.clear();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

const Has cpu{"cpu", false};

const Machine nvidia{
    "NVIDIA with TensorRT", System::linux_, {{"tensorrt", true, gpu_core}, {"cuda", true, gpu_core}, cpu}};
const Machine cuda_only{"NVIDIA without TensorRT", System::linux_, {{"cuda", true, gpu_core}, cpu}};
const Machine rtx{"NVIDIA with plugins", System::linux_, {{"tensorrt-rtx"}, {"cuda"}, cpu}};
const Machine radeon{"AMD with ROCm", System::linux_, {{"migraphx", true, gpu_core}, {"webgpu"}, cpu}};
const Machine intel{"Intel GPU", System::linux_, {{"openvino", true, openvino_core}, {"webgpu"}, cpu}};
const Machine processor{"AMD processor with OpenVINO", System::linux_, {{"openvino", false, openvino_core}, cpu}};
const Machine software{"software Vulkan", System::linux_, {{"webgpu", false}, cpu}};
const Machine both{"two cores", System::linux_, {{"openvino", false, openvino_core}, {"webgpu", false}, cpu}};
const Machine mixed{
    "NVIDIA and Intel", System::linux_, {{"cuda", true, gpu_core}, {"openvino", true, openvino_core}, {"webgpu"}, cpu}};
const Machine bare{"nothing but the CPU", System::linux_, {cpu}};
const Machine empty{"no ONNX Runtime", System::linux_, {}};
const Machine mac{"Mac", System::macos, {{"coreml"}, {"webgpu"}, cpu}};
const Machine windows{
    "Windows with an NPU", System::windows, {{"directml"}, {"vitisai"}, {"openvino", true, openvino_core}, cpu}};
const Machine snapdragon{"Windows on Qualcomm", System::windows, {{"qnn"}, {"directml"}, cpu}};
const Machine windows_nvidia{
    "Windows with NVIDIA",
    System::windows,
    {{"tensorrt", true, gpu_core}, {"cuda", true, gpu_core}, {"directml", true, gpu_core}, cpu}};

TEST(Select, ChoosesOnMachinesOfAllKinds) {
  struct Case {
    const Machine& machine;
    const char* request;
    const char* chosen;
    const char* core;  // what core_for says
  };

  const Case cases[] = {
      {nvidia, "auto", "tensorrt cuda cpu", gpu_core},
      {nvidia, "gpu", "tensorrt cuda cpu", gpu_core},
      {nvidia, "cuda", "cuda cpu", gpu_core},
      {nvidia, "tensorrt", "tensorrt cuda cpu", gpu_core},
      {nvidia, "tensorrt,cpu", "tensorrt cpu", gpu_core},
      {nvidia, "cpu", "cpu", ""},
      {nvidia, "npu", "cpu", ""},
      {cuda_only, "auto", "cuda cpu", gpu_core},
      {cuda_only, "tensorrt", "cuda cpu", gpu_core},
      {cuda_only, "tensorrt,", "", ""},
      {rtx, "auto", "tensorrt-rtx cuda cpu", ""},
      {radeon, "auto", "migraphx cpu", gpu_core},
      {radeon, "rocm", "migraphx cpu", gpu_core},
      {radeon, "vulkan", "webgpu cpu", ""},
      {intel, "auto", "openvino cpu", openvino_core},
      {intel, "gpu", "openvino cpu", openvino_core},
      {intel, "webgpu,openvino", "webgpu openvino", ""},
      {processor, "auto", "cpu", ""},
      {processor, "gpu", "cpu", ""},
      {processor, "openvino", "openvino cpu", openvino_core},
      {processor, "intel,", "openvino", openvino_core},
      {software, "auto", "cpu", ""},
      {software, "gpu", "cpu", ""},
      {software, "webgpu", "webgpu cpu", ""},
      {software, "fastest", "webgpu cpu", ""},
      {both, "auto", "cpu", ""},
      {both, "fastest", "openvino webgpu cpu", ""},
      {mixed, "auto", "cuda cpu", gpu_core},
      {mixed, "openvino,cuda", "openvino cuda", openvino_core},
      {bare, "auto", "cpu", ""},
      {bare, "cuda", "cpu", ""},
      {bare, "cuda,tensorrt", "", ""},
      {bare, "npu", "cpu", ""},
      {empty, "auto", "", ""},
      {empty, "cpu", "", ""},
      {mac, "auto", "coreml cpu", ""},
      {mac, "gpu", "coreml cpu", ""},
      {mac, "metal", "webgpu cpu", ""},
      {windows, "auto", "directml cpu", ""},
      {windows, "npu", "vitisai directml cpu", ""},
      {windows, "vitisai", "vitisai directml cpu", ""},
      {snapdragon, "npu", "qnn cpu", ""},
      {snapdragon, "auto", "directml cpu", ""},
      {windows_nvidia, "auto", "tensorrt cuda cpu", gpu_core},
  };
  for (const Case& c : cases) {
    const Request request = parse_request(c.request);
    const std::vector<ProviderReport> reports = reports_of(c.machine);
    const Selection selection = select(request, reports, c.machine.system);
    EXPECT_EQ(join(selection.chosen(), " "), c.chosen) << c.machine.name << ": " << c.request;
    EXPECT_EQ(core_for(request, reports, c.machine.system), c.core) << c.machine.name << ": " << c.request;
    EXPECT_EQ(selection.steps.size(), order_of(request, c.machine.system).size());
    for (const Selection::Step& step : selection.steps) {
      EXPECT_EQ(step.outcome == Outcome::active, step.reason.empty()) << c.machine.name << ": " << step.id;
    }
  }
}

Selection::Step step_of(const Machine& machine, const char* request, const char* id, const char* core = "") {
  for (Selection::Step& step : select(parse_request(request), reports_of(machine), machine.system, core).steps) {
    if (step.id == id) return std::move(step);
  }
  ADD_FAILURE() << "no step " << id;
  return {};
}

TEST(Select, GivesTheReasonOfEachThatIsNotChosen) {
  struct Case {
    const Machine& machine;
    const char* request;
    const char* id;
    Outcome outcome;
    const char* reason;
    const char* remedy;
  };

  const Case cases[] = {
      {bare, "cuda", "cuda", Outcome::unavailable, "not installed", "install it"},
      {software, "auto", "webgpu", Outcome::not_needed, "only on a processor or software adapter here",
       "ask for it by name: provider webgpu"},
      {processor, "gpu", "openvino", Outcome::not_needed, "only on a processor or software adapter here",
       "ask for it by name: provider openvino"},
      {mixed, "auto", "webgpu", Outcome::not_needed, "cuda came first", ""},
      {snapdragon, "npu", "directml", Outcome::not_needed, "qnn came first", ""},
  };
  for (const Case& c : cases) {
    const Selection::Step step = step_of(c.machine, c.request, c.id);
    EXPECT_EQ(step.outcome, c.outcome) << c.machine.name;
    EXPECT_EQ(step.reason, c.reason) << c.machine.name;
    EXPECT_EQ(step.remedy, c.remedy) << c.machine.name;
  }
}

TEST(Select, RefusesByNameWhatNeedsAnotherCore) {
  const Selection::Step step = step_of(intel, "webgpu,openvino,cpu", "openvino", plain_core);
  EXPECT_EQ(step.outcome, Outcome::unavailable);
  EXPECT_EQ(step.reason, "not with this core: it needs '/opt/openvino/libonnxruntime.so.1'");
  EXPECT_EQ(step.remedy, "ask for it first: provider openvino");
  EXPECT_EQ(step_of(intel, "webgpu,openvino,cpu", "webgpu", plain_core).outcome, Outcome::active);
  EXPECT_EQ(step_of(intel, "openvino,webgpu", "openvino", openvino_core).outcome, Outcome::active);
  EXPECT_EQ(step_of(mixed, "openvino,cuda", "cuda", openvino_core).outcome, Outcome::unavailable);
  EXPECT_EQ(step_of(nvidia, "tensorrt", "cuda", gpu_core).outcome, Outcome::active);
}

TEST(Select, GoesOnToTheNextWhereTheFirstNeedsAnotherCore) {
  const Selection selection = select(parse_request("auto"), reports_of(mixed), mixed.system, plain_core);
  EXPECT_EQ(join(selection.chosen(), " "), "webgpu cpu");
}

ProviderReport plugin_with(const std::vector<const char*>& kinds) {
  ProviderReport report;
  report.id = "ggml";
  report.available = true;
  for (const char* kind : kinds) {
    report.devices.push_back({.kind = kind, .name = {}, .vendor = {}});
    report.accelerated = report.accelerated || std::string(kind) != "cpu";
  }
  return report;
}

// Of a plugin that no row stands for, its devices tell what it is for.
TEST(Select, ConsidersPluginsOfNoRowByTheKindOfTheirDevices) {
  struct Case {
    const Machine& machine;
    std::vector<const char*> kinds;
    const char* request;
    const char* chosen;
    const char* reason;  ///< of the plugin
  };

  const Case cases[] = {
      {bare, {"gpu"}, "auto", "ggml cpu", ""},
      {bare, {"cpu", "gpu"}, "gpu", "ggml cpu", ""},
      {bare, {"npu"}, "npu", "ggml cpu", ""},
      {bare, {"npu"}, "auto", "cpu", "it has no GPU here"},
      {bare, {"npu"}, "gpu", "cpu", "it has no GPU here"},
      {bare, {"gpu"}, "npu", "cpu", "it has no NPU here"},
      {bare, {"cpu"}, "auto", "cpu", "only on a processor or software adapter here"},
      {bare, {"cpu"}, "npu", "cpu", "it has no NPU here"},
      {bare, {"cpu"}, "ggml", "ggml cpu", ""},
      {bare, {"cpu"}, "fastest", "ggml cpu", ""},
      {bare, {"gpu"}, "cpu", "cpu", ""},
      {cuda_only, {"gpu"}, "auto", "cuda cpu", "cuda came first"},
      {snapdragon, {"npu"}, "npu", "qnn cpu", "qnn came first"},
  };
  for (const Case& one : cases) {
    std::vector<ProviderReport> reports = reports_of(one.machine);
    reports.push_back(plugin_with(one.kinds));
    const Selection selection = select(parse_request(one.request, {"ggml"}), reports, one.machine.system);
    EXPECT_EQ(join(selection.chosen(), " "), one.chosen) << one.request;
    for (const Selection::Step& step : selection.steps) {
      if (step.id == "ggml") {
        EXPECT_EQ(step.reason, one.reason) << one.request;
      }
    }
  }
}

}  // namespace
}  // namespace gpux::provider
