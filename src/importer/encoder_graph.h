#pragma once

#include <filesystem>
#include <vector>

#include "importer/architecture.h"
#include "importer/dense_layer.h"
#include "importer/safetensors.h"

namespace gpux::importer {

/// The steps between the hidden states and the vector of a text.
struct VectorSteps {
  GraphPooling pooling = GraphPooling::none;
  std::vector<DenseLayer> dense{};  ///< of pooled vectors, in order
  bool normalize = false;           ///< vectors, to length 1
};

/// Writes the encoder as ONNX, with operators of opset 20 alone. Inputs input_ids and attention_mask, int64[batch,
/// sequence], and token_type_ids where the embeddings take it. Outputs, all float32: of architecture.head
/// (importer/graph/head_graph.h), or else sentence_embedding [batch, size] where there is a pooling, and
/// last_hidden_state [batch, sequence, hidden size]. A model beyond 2 GB has its weights in FILE_data beside it.
/// Errors invalid_model (a tensor is missing, has other sizes or is not part of the description), storage, permission.
void write_encoder(const Safetensors& weights, const Architecture& architecture, const VectorSteps& steps,
                   const std::filesystem::path& file);

}  // namespace gpux::importer
