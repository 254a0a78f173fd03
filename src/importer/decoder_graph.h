#pragma once

#include <filesystem>

#include "checkpoint/weights.h"
#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// From the last hidden state to the logits of the vocabulary.
struct LanguageHead {
  Linear linear{};  ///< to the vocabulary; its weight is often the table of the words
};

/// Writes a decoder as ONNX, with ONNX Runtime's operators GroupQueryAttention and SimplifiedLayerNormalization, and
/// with MatMulNBits and GatherBlockQuantized where `storage` has blocks.
///
/// Inputs: input_ids, int64[batch, sequence]; attention_mask, int64[batch, past_sequence + sequence], which is 1 at the
/// tokens of a row and 0 behind them; the keys and values of each layer (importer/graph/cached_attention.h).
/// Outputs: logits, float[batch, 1, vocabulary], of the last position of the run; the keys and values.
/// A model of more than 64 MiB has its weights in FILE_data beside it. Without a `file` it is checked, and nothing is
/// written. Errors invalid_model (a tensor is missing, has other sizes or is not part of the description),
/// invalid_config, storage, permission.
void write_decoder(const checkpoint::Weights& weights, const Architecture& architecture, const LanguageHead& head,
                   const WeightStorage& storage, const std::filesystem::path& file);

}  // namespace gpux::importer
