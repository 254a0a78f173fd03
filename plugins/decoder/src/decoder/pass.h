#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decoder/decoder.h"
#include "decoder/projection.h"
#include "decoder/weights.h"
#include "kernels/scratch.h"
#include "kernels/team.h"

namespace gpux_cpu::decoder {

/// A token that goes through the layers.
struct TokenRow {
  std::size_t row = 0;  ///< row in the batch
  std::size_t position = 0;
  std::int64_t id = 0;
};

/// Tokens of a row at consecutive positions, next to each other in a pass.
struct TokenRun {
  std::size_t first = 0, count = 0;
};

struct Workspace {
  ScratchBuffer<float> x, projected, query_key_value, attended, partial_sums;
  RowsInFormats input;
  FormattedRows attended_rows, intermediate;
};

struct Decoder::Scratch {
  Pool<Workspace> workspaces;
  Pool<AttentionScratch> attention;
  Pool<ScratchBuffer<float>> floats;
};

/// Weights, kernels, memory and batch of a forward pass.
struct PassInputs {
  const DecoderWeights& weights;
  const KernelTables& kernels;
  Decoder::Scratch& scratch;
  Team& team;
  const DecoderBatch& batch;
  const std::atomic<bool>* stopped = nullptr;  ///< may be null
};

/// Tokens go through the layers together: a row's tokens at consecutive positions next to each other.
/// `outputs`: of which tokens the logits are computed, ascending; `logits` of each, [vocabulary].
void run_pass(const PassInputs& inputs, std::span<const TokenRow> tokens, std::span<const std::size_t> outputs,
              std::span<float* const> logits);

}  // namespace gpux_cpu::decoder
