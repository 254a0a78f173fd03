#include "generation/decoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::generation {
namespace {

const SignatureEntry* find(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::uint64_t nodes_of(const ModelInfo& model, const std::string& type) {
  const auto found = model.operators.find(type);
  return found == model.operators.end() ? 0 : found->second;
}

// ids, mask and positions of a run
NamedValues token_inputs(std::span<const Decoder::Row> rows, bool has_position_ids) {
  const std::size_t count = rows.size(), length = rows.front().tokens.size();
  std::size_t total = 0;
  for (const Decoder::Row& row : rows) total = std::max(total, row.past + length);
  Tensor ids =
      Tensor::allocate(ElementType::int64, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)});
  Tensor positions = ids;
  Tensor mask =
      Tensor::allocate(ElementType::int64, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(total)});
  const std::span<std::int64_t> all_ids = ids.mutable_as<std::int64_t>(), all_ones = mask.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(rows[i].tokens, all_ids.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::ranges::fill(all_ones.subspan(i * total, rows[i].past + length), 1);
  }
  NamedValues inputs{{"input_ids", std::move(ids)}, {"attention_mask", std::move(mask)}};
  if (!has_position_ids) return inputs;
  positions = Tensor::allocate(ElementType::int64, positions.shape());
  const std::span<std::int64_t> all_positions = positions.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<std::int64_t> of_row = all_positions.subspan(i * length, length);
    std::iota(of_row.begin(), of_row.end(), static_cast<std::int64_t>(rows[i].past));
  }
  inputs.emplace_back("position_ids", std::move(positions));
  return inputs;
}

// float32[rows, vocabulary] of [rows, positions, vocabulary], where a model may give only the last position.
Tensor last_logits(const Tensor& logits) {
  const Shape& shape = logits.shape();
  constexpr std::size_t rank = 3;
  if (shape.size() != rank || shape[0] < 1 || shape[1] < 1 || shape[2] < 1) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("logits have the shape {}; accepted: [rows, positions, vocabulary]",
                            to_string(std::span<const std::int64_t>(shape))));
  }
  const Tensor floats = convert(logits, ElementType::float32);
  if (shape[1] == 1) return floats.reshaped({shape[0], shape[2]});
  const auto positions = static_cast<std::size_t>(shape[1]), vocabulary = static_cast<std::size_t>(shape[2]);
  Tensor last = Tensor::allocate(ElementType::float32, {shape[0], shape[2]});
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i) {
    std::ranges::copy(floats.as<float>().subspan((i * positions + positions - 1) * vocabulary, vocabulary),
                      last.mutable_as<float>().begin() + static_cast<std::ptrdiff_t>(i * vocabulary));
  }
  return last;
}

// The first tokens of [1, heads, tokens, head_size], in memory of its own.
Tensor first_tokens(const Tensor& values, std::size_t count) {
  const Shape& shape = values.shape();
  const auto tokens = static_cast<std::size_t>(shape[2]);
  if (count >= tokens) return values;
  Tensor first = Tensor::allocate(values.type(), {shape[0], shape[1], static_cast<std::int64_t>(count), shape[3]});
  const std::size_t row_bytes = values.byte_size() / (static_cast<std::size_t>(shape[1]) * tokens);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape[1]); ++head) {
    std::memcpy(first.mutable_bytes().data() + head * count * row_bytes,
                values.bytes().data() + head * tokens * row_bytes, count * row_bytes);
  }
  return first;
}

bool computes_pairs(const Runtime& runtime) {
  constexpr std::string_view product = "MatMulNBits";
  if (nodes_of(runtime.info(), fmt::format("com.microsoft::{}", product)) == 0) return false;
  return std::ranges::any_of(runtime.placement(), [&](const Runtime::PlacedNode& node) {
    return node.operator_type == product && node.provider == "cpu";
  });
}

}  // namespace

std::optional<DecoderSignature> decoder_signature(const ModelInfo& model) {
  const Signature& signature = model.signature;
  if (find(signature.inputs, "input_ids") == nullptr || find(signature.inputs, "attention_mask") == nullptr ||
      find(signature.outputs, "logits") == nullptr) {
    return std::nullopt;
  }
  DecoderSignature decoder;
  for (std::size_t i = 0;; ++i) {
    DecoderSignature::Layer layer{fmt::format("past_key_values.{}.key", i), fmt::format("past_key_values.{}.value", i),
                                  fmt::format("present.{}.key", i), fmt::format("present.{}.value", i)};
    const SignatureEntry* key = find(signature.inputs, layer.past_key);
    if (key == nullptr) break;
    const std::vector<Dimension> dimensions = key->type.dimensions.value_or(std::vector<Dimension>());
    constexpr std::size_t rank = 4;  // batch, heads, tokens, head size
    if (dimensions.size() != rank) return std::nullopt;
    decoder.cache.heads = dimensions[1].size.value_or(0);
    decoder.cache.head_size = dimensions[3].size.value_or(0);
    const bool is_known = find(signature.inputs, layer.past_value) != nullptr &&
                          find(signature.outputs, layer.present_key) != nullptr &&
                          find(signature.outputs, layer.present_value) != nullptr && decoder.cache.heads > 0 &&
                          decoder.cache.head_size > 0;
    if (!is_known) return std::nullopt;
    decoder.cache.type = key->type.element;
    decoder.layers.push_back(std::move(layer));
  }
  if (decoder.layers.empty()) return std::nullopt;
  decoder.cache.arrays = 2 * decoder.layers.size();
  decoder.has_position_ids = find(signature.inputs, "position_ids") != nullptr;
  decoder.writes_in_place = nodes_of(model, "com.microsoft::GroupQueryAttention") == decoder.layers.size();
  return decoder;
}

DecoderSignature require_decoder(const ModelInfo& model) {
  std::optional<DecoderSignature> signature = decoder_signature(model);
  if (signature) return *std::move(signature);
  throw Error(ErrorCode::invalid_model,
              fmt::format("'{}' generates no text: accepted is a model with the inputs input_ids, attention_mask and "
                          "past_key_values.N.key and .value, and the outputs logits and present.N.key and .value",
                          model.name));
}

Decoder::Decoder(Runtime runtime, std::size_t slots)
    : runtime_(std::move(runtime)),
      signature_(require_decoder(runtime_.info())),
      needs_pairs_(computes_pairs(runtime_)),
      session_(std::make_unique<runtime::SessionReplica>(runtime_)),
      shared_(signature_.cache, slots) {
  if (signature_.writes_in_place) return;
  const std::vector<SignatureEntry>& known = runtime_.info().signature.outputs;
  const auto add_output = [&](std::string_view name) {
    outputs_.push_back(static_cast<std::size_t>(std::ranges::find(known, name, &SignatureEntry::name) - known.begin()));
  };
  add_output("logits");
  for (const DecoderSignature::Layer& layer : signature_.layers) {
    add_output(layer.present_key);
    add_output(layer.present_value);
  }
  const Tensor none =
      Tensor::allocate(signature_.cache.type, {1, signature_.cache.heads, 0, signature_.cache.head_size});
  owned_.assign(slots, std::vector<Tensor>(signature_.cache.arrays, none));
}

Decoder::~Decoder() = default;

void Decoder::stop() {
  session_->stop();
}

Tensor Decoder::run(std::size_t first_slot, std::span<const Row> rows) {
  if (signature_.writes_in_place) return run_in_place(first_slot, rows);
  std::vector<float> all;
  std::int64_t vocabulary = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor logits = run_alone(first_slot + i, rows[i]);
    vocabulary = logits.shape().back();
    all.insert(all.end(), logits.as<float>().begin(), logits.as<float>().end());
  }
  return Tensor::of<float>({static_cast<std::int64_t>(rows.size()), vocabulary}, all);
}

Tensor Decoder::run_in_place(std::size_t first_slot, std::span<const Row> rows) {
  NamedValues inputs = token_inputs(rows, signature_.has_position_ids);
  NamedValues outputs;
  for (std::size_t i = 0; i < signature_.layers.size(); ++i) {
    const DecoderSignature::Layer& layer = signature_.layers[i];
    for (const bool is_value : {false, true}) {
      const Tensor rows_of_array = shared_.rows(2 * i + (is_value ? 1 : 0), first_slot, rows.size());
      inputs.emplace_back(is_value ? layer.past_value : layer.past_key, rows_of_array);
      outputs.emplace_back(is_value ? layer.present_value : layer.present_key, rows_of_array);
    }
  }
  const Value logits = session_->run_in_place(inputs, outputs, "logits");
  return last_logits(*logits.tensor());
}

Tensor Decoder::run_alone(std::size_t slot, const Row& row) {
  NamedValues inputs = token_inputs({&row, 1}, signature_.has_position_ids);
  std::vector<Tensor>& arrays = owned_[slot];
  for (std::size_t i = 0; i < signature_.layers.size(); ++i) {
    const DecoderSignature::Layer& layer = signature_.layers[i];
    inputs.emplace_back(layer.past_key, first_tokens(arrays[2 * i], row.past));
    inputs.emplace_back(layer.past_value, first_tokens(arrays[2 * i + 1], row.past));
  }
  const NamedValues outputs = session_->run(inputs, outputs_);
  for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = *outputs[i + 1].second.tensor();
  return last_logits(*outputs.front().second.tensor());
}

void Decoder::reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) {
  if (signature_.writes_in_place) shared_.reserve(tokens, sizes);
}

void Decoder::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  if (signature_.writes_in_place) return shared_.copy(from, to, tokens);
  for (std::size_t i = 0; i < owned_[to].size(); ++i) owned_[to][i] = first_tokens(owned_[from][i], tokens);
}

void Decoder::exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) {
  if (signature_.writes_in_place) return shared_.exchange(a, tokens_a, b, tokens_b);
  std::swap(owned_[a], owned_[b]);
}

void Decoder::release(std::size_t slot, std::size_t first, std::size_t end) {
  if (signature_.writes_in_place) return shared_.release(slot, first, end);
  for (Tensor& array : owned_[slot]) array = first_tokens(array, first);
}

}  // namespace gpux::generation
