#include "encoder/architectures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t relative_buckets = 40;

/// Draws the weights of an architecture.
class Maker {
 public:
  Maker(const Architecture& architecture, std::mt19937_64& engine) : of_(architecture), engine_(engine) {}

  PlainEncoder make() {
    const PlainSizes& sizes = of_.sizes;
    PlainEncoder made;
    Weights& settings = made.settings;
    settings.hidden_size = sizes.hidden_size;
    settings.num_heads = sizes.num_heads;
    settings.num_kv_heads = of_.num_kv_heads;
    settings.head_size = of_.head_size;
    settings.embedding_size = of_.embedding_size;
    settings.word_embeddings = values(sizes.vocabulary_size * of_.embedding_size, 1);
    if (of_.has_positions) settings.position_embeddings = values(sizes.positions * of_.embedding_size, 0.5F);
    if (of_.has_token_types) settings.token_type_embeddings = values(sizes.token_types * of_.embedding_size, 0.5F);
    settings.embedding_scale = of_.embedding_scale;
    if (of_.has_embedding_norm) settings.embedding_norm = norm(of_.embedding_size);
    if (of_.embedding_size != sizes.hidden_size)
      made.embedding_projection = linear(of_.embedding_size, sizes.hidden_size);
    if (of_.has_projected_embedding_norm) settings.projected_embedding_norm = norm(sizes.hidden_size);
    settings.zero_masked_embeddings = of_.zero_masked_embeddings;
    settings.mask_excludes_queries = of_.mask_excludes_queries;
    settings.position_ids = of_.position_ids;
    settings.pad_token_id = 1;
    settings.masked_position_id = 1;
    add_positions(settings);
    for (std::size_t i = 0; i < sizes.layers; ++i) made.layers.push_back(layer(i));
    if (of_.has_final_norm) settings.final_norm = norm(sizes.hidden_size);
    settings.pooling = of_.pooling;
    settings.normalize = of_.normalize;
    settings.masked_keys = of_.masked_keys;
    if (of_.pooling == Pooling::splade) {
      const std::size_t inner = sizes.hidden_size - 4;
      made.masked_lm = PlainMaskedLmHead{linear(sizes.hidden_size, inner), linear(inner, sizes.vocabulary_size),
                                         of_.activation, norm(inner)};
    }
    return made;
  }

 private:
  std::vector<float> values(std::size_t count, float spread, float middle = 0) {
    std::normal_distribution<float> normal(middle, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }

  PlainLinear linear(std::size_t inner, std::size_t columns) {
    return {inner, columns, values(inner * columns, 0.15F), values(columns, of_.has_linear_bias ? 0.1F : 0)};
  }

  Norm norm(std::size_t size) {
    Norm made{values(size, 0.1F, 1), {}, 1e-12F, of_.norm_kind};
    if (of_.has_norm_beta) made.beta = values(size, 0.1F);
    return made;
  }

  std::optional<Norm> norm_if(bool is_there, std::size_t size) {
    return is_there ? std::optional(norm(size)) : std::nullopt;
  }

  void add_positions(Weights& settings) {
    const std::size_t distances = 2 * of_.sizes.positions - 1;
    if (of_.rotary_dimensions > 0) {
      std::vector<float> frequencies(of_.rotary_dimensions / 2);
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        frequencies[i] = static_cast<float>(
            std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(of_.rotary_dimensions)));
      }
      settings.rotary_tables.push_back(make_rotary_table(frequencies, of_.sizes.positions, of_.is_interleaved, 1));
      for (float& frequency : frequencies) frequency /= 3;
      settings.rotary_tables.push_back(make_rotary_table(frequencies, of_.sizes.positions, of_.is_interleaved, 1.1));
    }
    const bool is_disentangled = of_.has_relative_keys || of_.has_relative_queries;
    if (of_.has_relative_bias || is_disentangled) settings.max_relative_positions = of_.sizes.positions;
    if (of_.has_relative_bias) settings.relative_bias = values(of_.sizes.num_heads * distances, 0.5F);
    if (of_.has_alibi) {
      std::vector<float> slopes(of_.sizes.num_heads);
      for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = 1 / std::pow(2.0F, static_cast<float>(i + 1));
      settings.alibi_slopes = slopes;
    }
    if (is_disentangled) {
      std::vector<std::uint32_t> buckets(distances);
      for (std::uint32_t& bucket : buckets) bucket = static_cast<std::uint32_t>(engine_() % relative_buckets);
      settings.relative_buckets = buckets;
    }
  }

  PlainLayer layer(std::size_t index) {
    const std::size_t hidden_size = of_.sizes.hidden_size, inner = of_.sizes.intermediate_size;
    const std::size_t query_columns = of_.sizes.num_heads * of_.head_size,
                      key_columns = of_.num_kv_heads * of_.head_size;
    PlainLayer made{linear(hidden_size, query_columns + 2 * key_columns),
                    linear(query_columns, hidden_size),
                    linear(hidden_size, of_.is_gated ? 2 * inner : inner),
                    linear(inner, hidden_size),
                    {}};
    Layer& settings = made.settings;
    settings.query_norm =
        norm_if(of_.has_head_norms || of_.has_all_heads_norms, of_.has_all_heads_norms ? query_columns : of_.head_size);
    settings.key_norm =
        norm_if(of_.has_head_norms || of_.has_all_heads_norms, of_.has_all_heads_norms ? key_columns : of_.head_size);
    // ModernBERT has none before its first attention.
    settings.attention_input_norm = norm_if(of_.has_input_norms && (index > 0 || !of_.has_embedding_norm), hidden_size);
    settings.attention_branch_norm = norm_if(of_.has_branch_norms, hidden_size);
    settings.attention_sum_norm = norm_if(of_.has_sum_norms, hidden_size);
    settings.feed_forward_input_norm = norm_if(of_.has_input_norms, hidden_size);
    settings.feed_forward_branch_norm = norm_if(of_.has_branch_norms, hidden_size);
    settings.feed_forward_sum_norm = norm_if(of_.has_sum_norms, hidden_size);
    settings.activation = of_.activation;
    settings.gated = of_.is_gated;
    if (of_.rotary_dimensions > 0) settings.rotary_table = index % 2;
    if (index % 2 == 0) settings.window = of_.window;
    settings.causal = of_.is_causal;
    settings.score_scale = of_.score_scale != 0 ? of_.score_scale : 1 / std::sqrt(static_cast<float>(of_.head_size));
    const std::size_t relative = of_.sizes.num_heads * relative_buckets * of_.head_size;
    if (of_.has_relative_keys) settings.relative_keys = values(relative, 0.5F);
    if (of_.has_relative_queries) settings.relative_queries = values(relative, 0.5F);
    return made;
  }

  const Architecture& of_;
  std::mt19937_64& engine_;
};

// Without learned positions; norms before the branches.
Architecture rotary(std::string name) {
  Architecture made;
  made.name = std::move(name);
  made.rotary_dimensions = 20;
  made.has_positions = made.has_token_types = false;
  made.is_gated = true;
  return made;
}

Architecture decoder(std::string name) {
  Architecture made = rotary(std::move(name));
  made.norm_kind = NormKind::rms_norm;
  made.has_norm_beta = made.has_linear_bias = made.has_embedding_norm = made.has_sum_norms = false;
  made.has_input_norms = made.has_final_norm = made.has_head_norms = made.normalize = true;
  made.sizes.num_heads = 4;
  made.num_kv_heads = 2;
  made.head_size = made.rotary_dimensions = 12;
  made.activation = Activation::silu;
  return made;
}

}  // namespace

PlainEncoder made_encoder(const Architecture& architecture, std::mt19937_64& engine) {
  return Maker(architecture, engine).make();
}

std::vector<Architecture> architectures() {
  constexpr float lowest = std::numeric_limits<float>::lowest(), infinity = std::numeric_limits<float>::infinity();
  Architecture modern = rotary("ModernBERT");
  modern.has_sum_norms = modern.has_norm_beta = modern.has_linear_bias = false;
  modern.has_input_norms = modern.has_final_norm = true;
  modern.window = Window{3, 3};
  modern.masked_keys = {lowest, true, false};

  Architecture nomic = rotary("NomicBERT");
  nomic.activation = Activation::silu;
  nomic.has_token_types = nomic.is_interleaved = true;
  nomic.rotary_dimensions = 12;
  nomic.normalize = true;

  Architecture qwen = decoder("Qwen3");
  qwen.is_causal = true;
  qwen.pooling = Pooling::last;
  qwen.position_ids = PositionIds::from_mask;
  qwen.masked_keys = {-infinity, true, true};

  Architecture gemma = decoder("Gemma 3");
  gemma.has_branch_norms = true;
  gemma.window = Window{4, 5};
  gemma.embedding_scale = 6.25F;
  gemma.activation = Activation::tanh_gelu;
  gemma.sizes.num_heads = 3;
  gemma.num_kv_heads = 1;
  gemma.masked_keys = {lowest, true, false};

  Architecture jina;
  jina.name = "JinaBERT";
  jina.has_alibi = jina.is_gated = jina.has_all_heads_norms = true;
  jina.has_positions = false;
  jina.masked_keys = {lowest, false, false};

  Architecture deberta;
  deberta.name = "DeBERTa";
  deberta.has_positions = deberta.has_token_types = deberta.has_embedding_norm = false;
  deberta.has_relative_keys = deberta.has_relative_queries = true;
  deberta.has_projected_embedding_norm = deberta.zero_masked_embeddings = deberta.mask_excludes_queries = true;
  deberta.embedding_size = 24;
  deberta.score_scale = 1 / std::sqrt(3.0F * 20);
  deberta.pooling = Pooling::cls;
  deberta.masked_keys = {lowest, true, false};

  Architecture t5 = decoder("T5");
  t5.rotary_dimensions = 0;
  t5.has_head_norms = false;
  t5.has_relative_bias = true;
  t5.num_kv_heads = 4;
  t5.activation = Activation::relu;
  t5.is_gated = false;
  t5.score_scale = 1;

  Architecture electra;
  electra.name = "ELECTRA";
  electra.embedding_size = 16;
  electra.position_ids = PositionIds::input;
  electra.activation = Activation::quick_gelu;

  Architecture splade;
  splade.name = "SPLADE";
  splade.pooling = Pooling::splade;
  return {modern, nomic, qwen, gemma, jina, deberta, t5, electra, splade};
}

Architecture random_architecture(std::mt19937_64& engine) {
  const auto chance = [&engine](unsigned of) { return engine() % of == 0; };
  constexpr float lowest = std::numeric_limits<float>::lowest(), infinity = std::numeric_limits<float>::infinity();
  constexpr MaskedKeys masked_keys[]{{-10000, false, false},
                                     {lowest, false, false},
                                     {lowest, true, false},
                                     {-infinity, true, true},
                                     {-infinity, true, false}};
  Architecture made;
  made.name = "random";
  made.sizes.num_heads = 1 + engine() % 4;
  made.num_kv_heads = chance(2) ? made.sizes.num_heads : 1;
  made.head_size = 2 * (1 + engine() % 20);
  made.sizes.intermediate_size = 1 + engine() % 70;
  made.sizes.layers = 1 + engine() % 3;
  made.embedding_size = chance(3) ? 1 + engine() % 60 : made.sizes.hidden_size;
  made.norm_kind = chance(2) ? NormKind::layer_norm : NormKind::rms_norm;
  made.has_norm_beta = chance(2);
  made.has_linear_bias = chance(2);
  made.has_input_norms = chance(2);
  made.has_branch_norms = chance(3);
  made.has_sum_norms = !made.has_input_norms || chance(4);
  // Of others the hidden states are of any size.
  made.has_final_norm = !made.has_sum_norms || chance(4);
  made.has_embedding_norm = chance(2);
  made.has_projected_embedding_norm = chance(3);
  made.has_head_norms = chance(3);
  made.has_all_heads_norms = chance(6);
  made.activation = static_cast<Activation>(engine() % 5);
  made.is_gated = chance(2);
  if (chance(2)) made.rotary_dimensions = 2 * (1 + engine() % (made.head_size / 2));
  made.is_interleaved = chance(3);
  if (chance(2)) made.window = Window{engine() % 12, engine() % 12};
  made.is_causal = chance(3);
  made.has_relative_bias = chance(4);
  made.has_alibi = chance(4);
  made.has_relative_keys = chance(4);
  made.has_relative_queries = chance(4);
  made.has_positions = chance(2);
  made.has_token_types = chance(2);
  made.position_ids = static_cast<PositionIds>(engine() % 4);
  made.embedding_scale = chance(3) ? 1.5F : 1;
  made.zero_masked_embeddings = chance(4);
  made.mask_excludes_queries = chance(4);
  made.pooling = static_cast<Pooling>(1 + engine() % 4);
  made.normalize = chance(2);
  made.masked_keys = masked_keys[engine() % std::size(masked_keys)];
  return made;
}

}  // namespace gpux_cpu::encoder
