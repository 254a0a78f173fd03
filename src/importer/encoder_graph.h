#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/dense_layer.h"
#include "checkpoint/splade_pooling.h"
#include "checkpoint/weights.h"
#include "importer/architecture.h"

namespace gpux::importer {

/// The steps between the hidden states and the vector of a text.
struct VectorSteps {
  GraphPooling pooling = GraphPooling::none;
  std::vector<checkpoint::DenseLayer> dense{};  ///< dense layers after pooling, in order
  bool normalize = false;                       ///< vectors, to length 1
};

/// The vectors of tokens for late interaction.
struct TokenVectorSteps {
  std::vector<checkpoint::DenseLayer> dense{};  ///< in order, at least one
  bool normalize = true;
};

/// Steps from hidden states to representations other than one vector per text: sparse vectors, token vectors, pair
/// scores.
struct RepresentationSteps {
  std::optional<checkpoint::SpladePooling> splade{};      ///< instead of vectors: sparse_embedding
  std::optional<TokenVectorSteps> token_vectors{};        ///< instead of vectors: token_embeddings
  std::optional<checkpoint::DenseLayer> token_weights{};  ///< BGE-M3: sparse_vecs, besides
  std::optional<checkpoint::DenseLayer> colbert{};        ///< BGE-M3: colbert_vecs, besides
  std::optional<checkpoint::DenseLayer> pair_score{};     ///< instead of vectors: logits [batch, 1] of the last token
};

/// Writes the encoder as ONNX, with operators of opset 20 alone. Inputs input_ids and attention_mask, int64[batch,
/// sequence], token_type_ids where the embeddings take it, and adapter_id where the architecture has tasks
/// (importer/graph/adapters.h). Outputs, all float32: of architecture.head
/// (importer/graph/head_graph.h), those of `representations` (importer/graph/representation_graph.h), or else
/// sentence_embedding [batch, size] where there is a pooling, and
/// last_hidden_state [batch, sequence, hidden size]. A model beyond 2 GB has its weights in FILE_data beside it.
/// With an empty `file`, nothing is written, and the data of the weights is not read.
/// Errors invalid_model (a tensor is missing, has other sizes or is not part of the description), storage, permission.
void write_encoder(const checkpoint::Weights& weights, const Architecture& architecture, const VectorSteps& steps,
                   const std::filesystem::path& file, const RepresentationSteps& representations = {});

}  // namespace gpux::importer
