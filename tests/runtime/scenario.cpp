#include "scenario.h"

#include <cmath>
#include <limits>

#include <unistd.h>

#include "base/process.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(Part part) {
  const fs::path all = GPUX_DEPS_DIR;
  switch (part) {
    case Part::onnxruntime:
      return all / "onnxruntime" / "lib";
    case Part::openvino:
      return all / "openvino";
    case Part::webgpu:
      return all / "webgpu";
    case Part::webgpu_core:
      return all / "webgpu-core";
    case Part::vulkan:
      return all / "vulkan";
  }
  return {};
}

}  // namespace

bool Scenario::has(Part part) {
  return fs::exists(folder_of(part));
}

void Scenario::SetUp() {
  if (!has(Part::onnxruntime)) GTEST_SKIP() << "no ONNX Runtime in " GPUX_DEPS_DIR ": scripts/setup fetches it";
  std::string pattern = (fs::path(testing::TempDir()) / "gpux_home_XXXXXX").string();
  home_ = ::mkdtemp(pattern.data());
  set("GPUX_HOME", home_);
  set("GPUX_ONNXRUNTIME", "");
  set("LD_LIBRARY_PATH", "");
  set("VIRTUAL_ENV", "");
  set("HOME", home_);
  set("PATH", "");
  set("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "");
  set("VK_ICD_FILENAMES", "/nonexistent.json");
  install(Part::onnxruntime);
}

void Scenario::TearDown() {
  if (!home_.empty()) fs::remove_all(home_);
}

void Scenario::install(Part part) {
  const fs::path from = folder_of(part);
  const auto link = [&](const fs::path& target, const fs::path& place) {
    fs::create_directories(place.parent_path());
    fs::create_symlink(target, place);
  };
  if (part == Part::onnxruntime) link(from / "libonnxruntime.so.1", home_ / "lib" / "libonnxruntime.so.1");
  if (part == Part::openvino) link(from, home_ / "cores" / "openvino");
  if (part == Part::webgpu_core) set("GPUX_ONNXRUNTIME", from / "libonnxruntime.so.1");
  if (part == Part::webgpu) {
    const char* library = "libonnxruntime_providers_webgpu.so";
    link(from / library, home_ / "providers" / library);
  }
}

std::string Scenario::model(const std::string& name) {
  return GPUX_SOURCE_DIR "/tests/models/" + name + ".onnx";
}

void Scenario::set(const std::string& name, const std::string& value) {
  std::erase_if(environment_, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  environment_.push_back(name + "=" + value);
}

void Scenario::set_software_vulkan() {
  const fs::path folder = folder_of(Part::vulkan);
  set("LD_LIBRARY_PATH", folder);
  set("VK_ICD_FILENAMES", folder / "vk_swiftshader_icd.json");
  set("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1");
}

nlohmann::json Scenario::run(const std::vector<std::string>& arguments, const std::string& program) {
  std::vector<std::string> command{program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ProcessResult result = run_process(command, std::chrono::seconds(120), environment_);
  EXPECT_FALSE(result.timed_out) << result.standard_error;
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  nlohmann::json report = nlohmann::json::parse(result.standard_output, nullptr, false);
  EXPECT_FALSE(report.is_discarded()) << result.standard_output << result.standard_error;
  return report.is_discarded() ? nlohmann::json::object() : report;
}

nlohmann::json attempt(const nlohmann::json& report, const std::string& provider) {
  if (!report.contains("verdict")) return nullptr;
  for (const auto& entry : report["verdict"]["tried"]) {
    if (entry["provider"] == provider) return entry;
  }
  return nullptr;
}

std::vector<float> output(const nlohmann::json& report, std::size_t step) {
  const nlohmann::json& taken = report.at("steps").at(step);
  return taken.contains("outputs") ? taken["outputs"]["y"].get<std::vector<float>>() : std::vector<float>{};
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
  return most;
}

std::string error_of(const nlohmann::json& report) {
  if (!report.contains("error")) return {};
  return report["error"]["code"].get<std::string>() + ": " + report["error"]["message"].get<std::string>();
}

std::string split_input() {
  std::string text = "x=1,1,4,4:0";
  for (int i = 1; i < 16; ++i) text += "," + std::to_string(i / 16.0);
  return text;
}

}  // namespace gpux
