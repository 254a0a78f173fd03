#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "encoder/plain_encoder.h"

namespace gpux_cpu::encoder {

/// What distinguishes the architectures of text encoders; BERT as it is.
struct Architecture {
  std::string name = "BERT";
  PlainSizes sizes = {};
  std::size_t num_kv_heads = 2, head_size = 20, embedding_size = 40;
  NormKind norm_kind = NormKind::layer_norm;
  bool has_norm_beta = true, has_linear_bias = true;
  bool has_input_norms = false, has_branch_norms = false, has_sum_norms = true, has_final_norm = false;
  bool has_embedding_norm = true, has_projected_embedding_norm = false;
  bool has_head_norms = false, has_all_heads_norms = false;
  Activation activation = Activation::gelu;
  bool is_gated = false;
  std::size_t rotary_dimensions = 0;
  bool is_interleaved = false;
  std::optional<Window> window = {};  ///< of every other layer, from the first one on
  bool is_causal = false;
  bool has_relative_bias = false, has_alibi = false, has_relative_keys = false, has_relative_queries = false;
  bool has_positions = true, has_token_types = true;
  PositionIds position_ids = PositionIds::index;
  float embedding_scale = 1, score_scale = 0;  ///< 0: 1 / sqrt(head_size)
  bool zero_masked_embeddings = false, mask_excludes_queries = false;
  Pooling pooling = Pooling::mean;
  bool normalize = false;
  MaskedKeys masked_keys = {};
};

/// Models of today, in small.
std::vector<Architecture> architectures();

/// Any combination of what the encoder computes.
Architecture random_architecture(std::mt19937_64& engine);

/// With random weights.
PlainEncoder made_encoder(const Architecture& architecture, std::mt19937_64& engine);

}  // namespace gpux_cpu::encoder
