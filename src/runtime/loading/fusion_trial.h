#pragma once

#include <span>
#include <string>

#include "onnx/fused_attention.h"
#include "ort/session.h"

namespace gpux::runtime {

/// Why the providers' fused operators are not used. Empty: they compute what the nodes do that they replace.
struct FusionDefects {
  std::string attention, norms;
};

/// Runs an example with operators of these forms on the providers of the settings, and the plain nodes on the CPU, with
/// a few tokens and with more than a tile of a kernel has. Kernels of some releases are wrong on some devices, as
/// MultiHeadAttention of WebGPU 0.4.0 is on a software device. Where no session can be made, both are defects.
FusionDefects try_fusion(const onnx::FusedModel& model, bool is_float16, ort::SessionSettings settings);

/// "an example of it is wrong by 0.5": the elements differ by more than rounding, also in tf32 and float16, or are no
/// numbers. Empty: they do not. Pure.
std::string difference_of(std::span<const float> met, std::span<const float> expected);

}  // namespace gpux::runtime
