#pragma once

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include <gtest/gtest.h>

#include "gpux/runtime.h"

namespace gpux {

/// The fetched CPU library of ONNX Runtime, for tests within this process; skipped where it was not fetched.
class CpuRuntime : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("GPUX_ONNXRUNTIME", GPUX_DEPS_DIR "/onnxruntime/lib", 1); }

  void SetUp() override {
    if (!std::filesystem::exists(GPUX_DEPS_DIR "/onnxruntime/lib")) {
      GTEST_SKIP() << "no ONNX Runtime in " GPUX_DEPS_DIR ": scripts/setup fetches it";
    }
  }
};

inline std::filesystem::path test_model(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests" / "models" / (name + ".onnx");
}

template <typename T>
Tensor tensor(Shape shape, std::initializer_list<T> values) {
  return Tensor::of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
}

inline Tensor floats(Shape shape, std::initializer_list<float> values) {
  return tensor<float>(std::move(shape), values);
}

}  // namespace gpux
