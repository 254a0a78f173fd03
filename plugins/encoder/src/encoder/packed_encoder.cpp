#include "encoder/packed_encoder.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpux_encoder {

// Beside each other in the order of the file; of what is read and of what is written, which is constant.
struct LinearArchive {
  template <typename Archive, typename SomeLinear>
  static void visit(Archive& archive, SomeLinear& linear) {
    archive(linear.precision_);
    archive(linear.inner_);
    archive(linear.padded_inner_);
    archive(linear.columns_);
    archive(linear.floats_);
    archive(linear.bias_);
    archive(linear.column_scale_);
    archive(linear.bfloat16s_);
    archive(linear.bytes_);
    archive(linear.column_sum_);
  }

  static bool is_whole(const Linear& linear, Precision precision, std::size_t inner, std::size_t columns) {
    if (linear.precision_ != precision || linear.inner_ != inner || linear.columns_ != columns) return false;
    if (linear.padded_inner_ != padded_inner(precision, inner)) return false;
    const std::size_t all = linear.padded_inner_ * linear.columns(), columns_padded = linear.columns();
    const auto has = [precision](Precision user, const auto& array, std::size_t count) {
      return array.size() == (precision == user ? count : 0);
    };
    return linear.bias_.size() == columns_padded && has(Precision::fp32, linear.floats_, all) &&
           has(Precision::bf16, linear.bfloat16s_, all) && has(Precision::int8, linear.bytes_, all) &&
           has(Precision::int8, linear.column_scale_, columns_padded) &&
           has(Precision::int8, linear.column_sum_, columns_padded);
  }
};

namespace {

template <typename Some, typename Type>
concept Is = std::same_as<std::remove_const_t<Some>, Type>;

constexpr std::string_view magic = "gpux encoder, 2\n";
constexpr std::size_t alignment = 64;
// Of those that write() never exceeds, so that a damaged file does not take all memory.
constexpr std::size_t max_layers = 4096;
// And so that no product of sizes is more than a number holds.
constexpr std::size_t max_size = std::size_t{1} << 20;

class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {}

  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(const Number& number) {
    put(&number, sizeof number);
  }

  template <typename Number>
  void operator()(const SharedArray<Number>& array) {
    (*this)(array.size());
    constexpr std::array<char, alignment> zeros{};
    put(zeros.data(), (alignment - offset_ % alignment) % alignment);
    put(array.data(), array.size() * sizeof(Number));
  }

  void text(std::string_view text) { put(text.data(), text.size()); }

 private:
  void put(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    offset_ += bytes;
  }

  std::ostream& out_;
  std::size_t offset_ = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keeper) : left_(bytes), keeper_(keeper) {}

  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(Number& number) {
    const std::span<const std::byte> from = take(sizeof number);
    if constexpr (std::same_as<Number, bool>) {
      number = from[0] != std::byte{0};
    } else {
      std::memcpy(&number, from.data(), sizeof number);
    }
  }

  template <typename Number>
  void operator()(SharedArray<Number>& array) {
    std::size_t count = 0;
    (*this)(count);
    take((alignment - offset_ % alignment) % alignment);
    if (count > left_.size() / sizeof(Number)) throw std::runtime_error("it ends too early");
    const std::span<const std::byte> from = take(count * sizeof(Number));
    array = {{reinterpret_cast<const Number*>(from.data()), count}, keeper_};
  }

  void text(std::string_view text) {
    const std::span<const std::byte> from = take(text.size());
    if (std::memcmp(from.data(), text.data(), text.size()) != 0) {
      throw std::runtime_error("it is no encoder of this version of gpux");
    }
  }

  [[nodiscard]] bool is_at_end() const noexcept { return left_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > left_.size()) throw std::runtime_error("it ends too early");
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    offset_ += bytes;
    return taken;
  }

  std::span<const std::byte> left_;
  const std::shared_ptr<const void>& keeper_;
  std::size_t offset_ = 0;
};

template <typename Archive, Is<LayerNorm> SomeNorm>
void visit(Archive& archive, SomeNorm& norm) {
  archive(norm.gamma);
  archive(norm.beta);
  archive(norm.epsilon);
}

template <typename Archive, Is<Layer> SomeLayer>
void visit(Archive& archive, SomeLayer& layer) {
  LinearArchive::visit(archive, layer.query_key_value);
  LinearArchive::visit(archive, layer.attention_output);
  visit(archive, layer.attention_layer_norm);
  LinearArchive::visit(archive, layer.up_projection);
  LinearArchive::visit(archive, layer.down_projection);
  archive(layer.activation);
  visit(archive, layer.output_layer_norm);
  archive(layer.score_scale);
}

// Written from it, read into it.
std::size_t layer_count(Writer& archive, const std::vector<Layer>& layers) {
  archive(layers.size());
  return layers.size();
}

std::size_t layer_count(Reader& archive, std::vector<Layer>& layers) {
  std::size_t count = 0;
  archive(count);
  if (count > max_layers) throw std::runtime_error("it has too many layers");
  layers.resize(count);
  return count;
}

void visit(Writer& archive, const std::optional<std::int64_t>& number) {
  archive(number.has_value());
  archive(number.value_or(0));
}

void visit(Reader& archive, std::optional<std::int64_t>& number) {
  bool is_set = false;
  std::int64_t value = 0;
  archive(is_set);
  archive(value);
  if (is_set) number = value;
}

template <typename Archive, Is<Weights> SomeWeights>
void visit(Archive& archive, SomeWeights& weights) {
  archive(weights.hidden_size);
  archive(weights.num_heads);
  archive(weights.word_embeddings);
  archive(weights.position_embeddings);
  archive(weights.token_type_embeddings);
  visit(archive, weights.pad_token_id);
  archive(weights.position_bias);
  archive(weights.max_bias_positions);
  visit(archive, weights.embedding_layer_norm);
  archive(weights.masked_keys.score);
  archive(weights.masked_keys.replaces);
  archive(weights.masked_keys.zero_if_all_masked);
  visit(archive, weights.masked_id);
  archive(weights.mask_from_front);
  const std::size_t layers = layer_count(archive, weights.layers);
  for (std::size_t i = 0; i < layers; ++i) visit(archive, weights.layers[i]);
  archive(weights.pooling);
  archive(weights.normalize);
}

template <typename Archive, Is<PackedEncoder> SomeEncoder>
void visit(Archive& archive, SomeEncoder& encoder) {
  archive.text(magic);
  archive(encoder.digest);
  archive(encoder.precision);
  archive(encoder.has_attention_mask);
  archive(encoder.has_token_type_ids);
  archive(encoder.has_vectors);
  archive(encoder.has_hidden_states);
  visit(archive, encoder.weights);
  archive.text(magic);  // what is torn lacks it
}

bool is_whole(const LayerNorm& norm, std::size_t hidden_size) {
  return norm.gamma.size() == hidden_size && norm.beta.size() == hidden_size;
}

bool is_whole(const Layer& layer, const LayerPrecision& precision, std::size_t hidden_size) {
  const std::size_t intermediate_size = layer.down_projection.inner();
  return LinearArchive::is_whole(layer.query_key_value, precision.query_key_value, hidden_size, 3 * hidden_size) &&
         LinearArchive::is_whole(layer.attention_output, precision.others, hidden_size, hidden_size) &&
         is_whole(layer.attention_layer_norm, hidden_size) && intermediate_size > 0 && intermediate_size <= max_size &&
         LinearArchive::is_whole(layer.up_projection, precision.others, hidden_size, intermediate_size) &&
         LinearArchive::is_whole(layer.down_projection, precision.others, intermediate_size, hidden_size) &&
         layer.activation <= Activation::tanh_gelu && is_whole(layer.output_layer_norm, hidden_size);
}

// What a run takes for granted.
bool is_whole(const Weights& weights, Precision precision) {
  const std::size_t hidden_size = weights.hidden_size, num_heads = weights.num_heads,
                    positions = weights.max_bias_positions;
  if (hidden_size == 0 || hidden_size > max_size || num_heads == 0 || hidden_size % num_heads != 0 ||
      positions > max_size)
    return false;
  // Attention in bfloat16 takes its rows by pairs.
  if (precision != Precision::fp32 && hidden_size / num_heads % 2 != 0) return false;
  const auto has_rows = [hidden_size](const SharedArray<float>& table) { return table.size() % hidden_size == 0; };
  if (!has_rows(weights.word_embeddings) || !has_rows(weights.position_embeddings) ||
      !has_rows(weights.token_type_embeddings))
    return false;
  if (weights.position_bias.size() != num_heads * positions * positions || weights.pooling > Pooling::mean)
    return false;
  std::size_t layers_behind = weights.layers.size();
  if (layers_behind == 0) return false;
  return is_whole(weights.embedding_layer_norm, hidden_size) &&
         std::ranges::all_of(weights.layers, [&](const Layer& layer) {
           return is_whole(layer, layer_precision(precision, --layers_behind), hidden_size);
         });
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
      !is_whole(encoder.weights, encoder.precision)) {
    throw std::runtime_error("it is damaged");
  }
  return encoder;
}

}  // namespace gpux_encoder
