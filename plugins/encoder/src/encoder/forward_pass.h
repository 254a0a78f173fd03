#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "encoder/encoder.h"
#include "encoder/packed_tokens.h"
#include "kernels/attention.h"
#include "kernels/scratch.h"
#include "kernels/team.h"

namespace gpux_encoder {

struct Workspace {
  Room<float> x, wide, mixed, projected, scale;
  Room<std::uint16_t> bfloat16s, attention_bfloat16s;
  Room<std::uint8_t> bytes;
  Room<std::int32_t> zero;
};

struct Encoder::Rooms {
  Pool<Workspace> passes;
  Pool<AttentionRoom> attention;
};

/// Computes the texts from `first_text` on, without `last_text`, through all layers, and writes their part of
/// `results`. `length` is that of the batch. `team` shares out each step; null: this thread does all. Throws Stopped.
void run_pass(const Weights& weights, const Kernels& kernels, Encoder::Rooms& rooms, const Packed& packed,
              std::size_t length, std::size_t first_text, std::size_t last_text, Team* team,
              const std::atomic<bool>* stopped, const Encoder::Results& results);

}  // namespace gpux_encoder
