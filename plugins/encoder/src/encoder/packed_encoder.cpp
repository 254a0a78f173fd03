#include "encoder/packed_encoder.h"

#include <concepts>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include "encoder/archive.h"
#include "encoder/weights_check.h"

namespace gpux_cpu::encoder {

namespace {

template <typename Some, typename Type>
concept Is = std::same_as<std::remove_const_t<Some>, Type>;

constexpr std::string_view magic = "gpux encoder, 4\n";
// Of those that write() never exceeds, so that a damaged file does not take all memory.
constexpr std::size_t max_items = 4096;

// The members of each type in the order of the file; of what is read and of what is written, which is constant.
template <typename Archive, Is<Linear> SomeLinear>
void visit(Archive& archive, SomeLinear& linear) {
  Linear::visit(archive, linear);
}

template <typename Archive, Is<Norm> SomeNorm>
void visit(Archive& archive, SomeNorm& norm) {
  archive(norm.gamma);
  archive(norm.beta);
  archive(norm.epsilon);
  archive(norm.kind);
}

template <typename Archive, Is<Window> SomeWindow>
void visit(Archive& archive, SomeWindow& window) {
  archive(window.left);
  archive(window.right);
}

template <typename Archive, typename Number>
  requires std::is_arithmetic_v<Number>
void visit(Archive& archive, Number& number) {
  archive(number);
}

template <typename Archive, Is<RotaryTable> SomeTable>
void visit(Archive& archive, SomeTable& table) {
  archive(table.dimensions);
  archive(table.interleaved);
  archive(table.cosines);
  archive(table.sines);
}

template <typename Archive, Is<MaskedLmHead> SomeHead>
void visit(Archive& archive, SomeHead& head);

template <typename Value>
void visit(Writer& archive, const std::optional<Value>& value) {
  archive(value.has_value());
  if (value) visit(archive, *value);
}

template <typename Value>
void visit(Reader& archive, std::optional<Value>& value) {
  bool is_set = false;
  archive(is_set);
  if (is_set) visit(archive, value.emplace());
}

template <typename Archive, Is<MaskedLmHead> SomeHead>
void visit(Archive& archive, SomeHead& head) {
  visit(archive, head.transform);
  archive(head.activation);
  visit(archive, head.norm);
  visit(archive, head.decoder);
  archive(head.has_second_log);
}

template <typename Archive, Is<Layer> SomeLayer>
void visit(Archive& archive, SomeLayer& layer) {
  visit(archive, layer.query_key_value);
  visit(archive, layer.attention_output);
  visit(archive, layer.query_norm);
  visit(archive, layer.key_norm);
  visit(archive, layer.attention_input_norm);
  visit(archive, layer.attention_branch_norm);
  visit(archive, layer.attention_sum_norm);
  visit(archive, layer.feed_forward_input_norm);
  visit(archive, layer.feed_forward_branch_norm);
  visit(archive, layer.feed_forward_sum_norm);
  visit(archive, layer.up_projection);
  visit(archive, layer.down_projection);
  archive(layer.activation);
  archive(layer.gated);
  visit(archive, layer.rotary_table);
  visit(archive, layer.window);
  archive(layer.causal);
  archive(layer.score_scale);
  archive(layer.relative_keys);
  archive(layer.relative_queries);
}

template <typename Item>
void visit(Writer& archive, const std::vector<Item>& items) {
  archive(items.size());
  for (const Item& item : items) visit(archive, item);
}

template <typename Item>
void visit(Reader& archive, std::vector<Item>& items) {
  std::size_t count = 0;
  archive(count);
  if (count > max_items) throw std::runtime_error("it has too many layers or tables");
  // One by one: what is torn has no memory taken for it.
  for (std::size_t i = 0; i < count; ++i) visit(archive, items.emplace_back());
}

template <typename Archive, Is<Weights> SomeWeights>
void visit(Archive& archive, SomeWeights& weights) {
  archive(weights.hidden_size);
  archive(weights.num_heads);
  archive(weights.num_kv_heads);
  archive(weights.head_size);
  archive(weights.embedding_size);
  archive(weights.word_embeddings);
  archive(weights.position_embeddings);
  archive(weights.token_type_embeddings);
  archive(weights.embedding_scale);
  visit(archive, weights.embedding_norm);
  visit(archive, weights.embedding_projection);
  visit(archive, weights.projected_embedding_norm);
  archive(weights.zero_masked_embeddings);
  archive(weights.position_ids);
  archive(weights.pad_token_id);
  archive(weights.masked_position_id);
  visit(archive, weights.rotary_tables);
  archive(weights.relative_bias);
  archive(weights.alibi_slopes);
  archive(weights.relative_buckets);
  archive(weights.max_relative_positions);
  archive(weights.masked_keys.score);
  archive(weights.masked_keys.replaces);
  archive(weights.masked_keys.zero_if_all_masked);
  archive(weights.mask_excludes_queries);
  visit(archive, weights.masked_id);
  archive(weights.mask_from_front);
  visit(archive, weights.layers);
  visit(archive, weights.final_norm);
  archive(weights.pooling);
  visit(archive, weights.masked_lm);
  archive(weights.normalize);
}

template <typename Archive, Is<PackedEncoder> SomeEncoder>
void visit(Archive& archive, SomeEncoder& encoder) {
  archive.text(magic);
  archive(encoder.digest);
  archive(encoder.precision);
  archive(encoder.has_attention_mask);
  archive(encoder.has_token_type_ids);
  archive(encoder.has_position_ids);
  archive(encoder.has_vectors);
  archive(encoder.has_hidden_states);
  visit(archive, encoder.weights);
  archive.text(magic);  // what is torn lacks it
}

}  // namespace

void write(const PackedEncoder& encoder, std::ostream& out) {
  Writer writer(out);
  visit(writer, encoder);
}

PackedEncoder read(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keeper) {
  PackedEncoder encoder;
  Reader reader(bytes, keeper);
  visit(reader, encoder);
  if (!reader.is_at_end() || encoder.precision > Precision::int8_bf16 ||
      encoder.has_position_ids != (encoder.weights.position_ids == PositionIds::input) ||
      !is_whole(encoder.weights, encoder.precision)) {
    throw std::runtime_error("it is damaged");
  }
  return encoder;
}

}  // namespace gpux_cpu::encoder
