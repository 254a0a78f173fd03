#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpux {

/// What a test may find in the folder of fetched parts.
enum class Part { onnxruntime, openvino, webgpu, webgpu_core, vulkan };

/// A temporary $GPUX_HOME with the parts asked for, and the program that loads a model there.
/// Each test has its own; the machine's own Python packages and libraries are not seen.
class Scenario : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Whether the part was fetched.
  static bool has(Part part);
  /// The CPU library of ONNX Runtime into lib, OpenVINO's with its bridge into cores/openvino, the WebGPU plugin into
  /// providers. A library with WebGPU built in becomes the only ONNX Runtime.
  void install(Part part);

  [[nodiscard]] const std::filesystem::path& home() const { return home_; }

  static std::string model(const std::string& name);

  /// Adds "NAME=value" to the program's environment; the last one of a name counts.
  void set(const std::string& name, const std::string& value);
  /// A software Vulkan device for WebGPU: its driver and loader, and leave to use it.
  void set_software_vulkan();

  /// Runs the program and returns what it printed. Fails the test where it crashed or hung.
  nlohmann::json run(const std::vector<std::string>& arguments, const std::string& program = GPUX_RUN_SCENARIO);

 private:
  std::filesystem::path home_;
  std::vector<std::string> environment_;
};

/// The attempt at a provider in a report's verdict; null where there is none.
nlohmann::json attempt(const nlohmann::json& report, const std::string& provider);

/// The output "y" of a step.
std::vector<float> output(const nlohmann::json& report, std::size_t step);

/// Largest absolute difference; infinite where the sizes differ.
double difference(const std::vector<float>& a, const std::vector<float>& b);

/// "code: message" of a report's or step's error; empty where it has none.
std::string error_of(const nlohmann::json& report);

/// The input of split.onnx that its README answers.
std::string split_input();

}  // namespace gpux
