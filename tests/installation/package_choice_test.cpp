#include "installation/package_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"
#include "gpux/error.h"

namespace gpux::installation {
namespace {

using testing::HasSubstr;

struct Case {
  const char* wanted;
  MachineFacts facts;
  const char* set;    // or the error's code
  const char* words;  // of the reason, or of the error
};

TEST(PackageChoice, IsWhatTheMachineSupports) {
  const MachineFacts bare{}, newest{.nvidia_driver = "580.65.06", .min_compute_capability = 90, .core = "1.31.1"},
      older{.nvidia_driver = "550.54.15", .min_compute_capability = 80, .core = "1.31.1"},
      oldest{.nvidia_driver = "470.256.02", .min_compute_capability = 75, .core = "1.31.1"},
      pascal{.nvidia_driver = "580.65.06", .min_compute_capability = 61, .core = {}},
      old_core{.nvidia_driver = {}, .min_compute_capability = 0, .core = "1.23.2"};
  const Case cases[] = {
      {"cuda", newest, "cuda", "for CUDA 13, which NVIDIA's driver 580.65.06 supports"},
      {"cuda", older, "cuda12",
       "instead of cuda: CUDA 13 needs NVIDIA's driver 580 or newer, and the one here is 550.54.15"},
      {"nvidia", older, "cuda12", "instead of cuda"},
      {"cuda", pascal, "cuda12", "compute capability 7.5 or newer, and there is one of 6.1 here"},
      {"cuda", bare, "cuda", "needs NVIDIA's driver 580 or newer; no driver tells its version here"},
      {"cuda", oldest, "provider_unavailable", "the one here is 470.256.02; next: sudo apt install nvidia-driver"},
      {"cuda12", newest, "cuda12", "for CUDA 12, which NVIDIA's driver 580.65.06 supports"},
      {"cuda12", oldest, "provider_unavailable", "CUDA 12 needs NVIDIA's driver 525 or newer"},
      // The libraries are those of the version that is asked for.
      {"cuda@1.26.0", newest, "cuda12", "onnxruntime-gpu 1.26.0 is for CUDA 12"},
      {"cuda@1.26.0", older, "cuda12", "onnxruntime-gpu 1.26.0 is for CUDA 12"},
      {"cuda@1.27.0", newest, "cuda", "for CUDA 13"},
      {"cuda@1.27.0", older, "provider_unavailable", "next: gpux providers install cuda12"},
      {"cuda12@1.26.0", newest, "cuda12", "for CUDA 12"},
      {"cuda12@1.31.1", newest, "usage",
       "for CUDA 13 from 1.27 on; accepted: cuda12 with an older version, cuda@1.31.1"},
      {"tensorrt", newest, "tensorrt", "for CUDA 13, which NVIDIA's driver 580.65.06 supports"},
      {"tensorrt", older, "provider_unavailable", "next: gpux providers install cuda12"},
      {"tensorrt", oldest, "provider_unavailable", "next: sudo apt install nvidia-driver"},
      {"tensorrt-rtx", pascal, "provider_unavailable", "next: gpux providers install cuda12"},
      {"tensorrt-rtx", newest, "tensorrt-rtx",
       "supports; a plugin for ONNX Runtime 1.24 or newer; the one here is 1.31.1"},
      // Plugins, and the ONNX Runtime that is to load them.
      {"webgpu", newest, "webgpu", "a plugin for ONNX Runtime 1.24.4 or newer; the one here is 1.31.1"},
      {"webgpu", bare, "webgpu", "a plugin for ONNX Runtime 1.24.4 or newer"},
      {"webgpu", old_core, "provider_unavailable", "the one here is 1.23.2; next: gpux providers install cpu"},
      // Cores bring their own.
      {"openvino", old_core, "openvino", ""},
      {"cpu", bare, "cpu", ""},
      {"cudda", bare, "usage", "did you mean 'cuda'"},
  };
  for (const Case& one : cases) {
    std::string set, words;
    try {
      const PackageChoice choice = choose_packages(parse_wanted(one.wanted), one.facts);
      set = choice.set->name;
      words = choice.reason;
    } catch (const Error& error) {
      set = error.code() == ErrorCode::usage                  ? "usage"
            : error.code() == ErrorCode::provider_unavailable ? "provider_unavailable"
                                                              : "another error";
      words = error.message();
    }
    EXPECT_EQ(set, one.set) << one.wanted << " with driver " << one.facts.nvidia_driver;
    EXPECT_THAT(words, HasSubstr(one.words)) << one.wanted << " with driver " << one.facts.nvidia_driver;
  }
}

// Of several ONNX Runtimes plugins get the one that is nobody's bridge.
TEST(MachineFacts, AreReadFromTheMachine) {
  const test::MadeMachine bare("env HOME=/home/ada\n");
  EXPECT_EQ(machine_facts(bare).core, "");
  EXPECT_EQ(machine_facts(bare).nvidia_driver, "");
  const test::MadeMachine machine(
      "env HOME=/home/ada\n"
      "/home/ada/.gpux/lib/libonnxruntime.so.1.24.1\n"
      "/home/ada/.gpux/lib/libonnxruntime_providers_openvino.so\n"
      "/home/ada/.gpux/cores/plain/libonnxruntime.so.1.30.2\n");
  EXPECT_EQ(machine_facts(machine).core, "1.30.2");
}

}  // namespace
}  // namespace gpux::installation
