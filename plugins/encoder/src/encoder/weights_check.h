#pragma once

#include "encoder/weights.h"

namespace gpux_cpu::encoder {

/// Whether the sizes of all arrays and matrices fit each other, and each number is in its range: what a run takes for
/// granted. `precision` is that of the encoder. Pure.
bool is_whole(const Weights& weights, Precision precision) noexcept;

}  // namespace gpux_cpu::encoder
