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
  ScratchBuffer<float> x, intermediate, context, projected, scale;
  ScratchBuffer<std::uint16_t> bfloat16s, attention_bfloat16s;
  ScratchBuffer<std::uint8_t> bytes;
  ScratchBuffer<std::int32_t> zero;
};

struct Encoder::Scratch {
  Pool<Workspace> workspaces;
  Pool<AttentionScratch> attention;
};

/// Runs the texts [first_text, last_text) through all layers, and writes their part of `results`. `length` is the
/// sequence_length of the batch. `team` divides each step among its threads; null: this thread does all. Throws
/// Stopped.
void run_forward_pass(const Weights& weights, const Kernels& kernels, Encoder::Scratch& scratch,
                      const PackedTokens& packed, std::size_t length, std::size_t first_text, std::size_t last_text,
                      Team* team, const std::atomic<bool>* stopped, const Encoder::Results& results);

}  // namespace gpux_encoder
