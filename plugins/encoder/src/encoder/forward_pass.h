#pragma once

#include <cstddef>

#include "encoder/encoder.h"
#include "encoder/packed_tokens.h"
#include "encoder/pass.h"

namespace gpux_cpu::encoder {

/// Runs the texts [first_text, last_text) through all layers, and writes their part of `results`. Throws Stopped.
void run_forward_pass(const PassInputs& inputs, std::size_t first_text, std::size_t last_text,
                      const Encoder::Results& results);

}  // namespace gpux_cpu::encoder
