#include "generation/decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
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
NamedValues token_inputs(std::span<const Decoder::Row> rows, const DecoderSignature& signature) {
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
  NamedValues inputs{{signature.names.input_ids, std::move(ids)}, {signature.names.attention_mask, std::move(mask)}};
  if (!signature.has_position_ids) return inputs;
  positions = Tensor::allocate(ElementType::int64, positions.shape());
  const std::span<std::int64_t> all_positions = positions.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<std::int64_t> of_row = all_positions.subspan(i * length, length);
    std::iota(of_row.begin(), of_row.end(), static_cast<std::int64_t>(rows[i].past));
  }
  inputs.emplace_back(signature.names.position_ids, std::move(positions));
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

// The first tokens of [1, heads, tokens, head_size]: the same, or in host memory of its own.
DeviceTensor first_tokens(const DeviceTensor& all, std::size_t count) {
  const Shape& shape = all.shape();
  const auto tokens = static_cast<std::size_t>(shape[2]);
  if (count >= tokens) return all;
  Tensor first = Tensor::allocate(all.type(), {shape[0], shape[1], static_cast<std::int64_t>(count), shape[3]});
  if (count == 0) return DeviceTensor(std::move(first));
  const Tensor values = all.read();
  const std::size_t row_bytes = values.byte_size() / (static_cast<std::size_t>(shape[1]) * tokens);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape[1]); ++head) {
    std::memcpy(first.mutable_bytes().data() + head * count * row_bytes,
                values.bytes().data() + head * tokens * row_bytes, count * row_bytes);
  }
  return DeviceTensor(std::move(first));
}

bool computes_pairs(const Runtime& runtime) {
  constexpr std::string_view product = "MatMulNBits";
  if (nodes_of(runtime.info(), fmt::format("com.microsoft::{}", product)) == 0) return false;
  return std::ranges::any_of(runtime.placement(), [&](const Runtime::PlacedNode& node) {
    return node.operator_type == product && node.provider == "cpu";
  });
}

/// Compares a model's inputs and outputs with those of a decoder.
class Matcher {
 public:
  Matcher(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size)
      : model_(model), head_size_(head_size) {
    decoder_.names = names;
  }

  DecoderMatch run() {
    const DecoderNames& names = decoder_.names;
    const std::vector<SignatureEntry>& inputs = model_.signature.inputs;
    if (find(inputs, "use_cache_branch") != nullptr) {
      return {{},
              "it is a merged decoder, whose two branches compute with and without a cache (use_cache_branch); export "
              "the model without merging (optimum-cli export onnx --task text-generation-with-past)"};
    }
    for (const std::string& name : {names.input_ids, names.attention_mask}) {
      if (!has(inputs, name)) return refused();
      if (find(inputs, name)->type.element != ElementType::int64) {
        return {{}, fmt::format("its input {} is not of int64", name)};
      }
    }
    if (!has(model_.signature.outputs, names.logits)) return refused();
    constexpr std::size_t max_layers = 1024;
    while (find(inputs, name_of_layer(names.past_key, decoder_.layers.size())) != nullptr) {
      if (decoder_.layers.size() == max_layers) return {{}, fmt::format("it has more than {} layers", max_layers)};
      if (!add_layer(decoder_.layers.size())) return refused();
    }
    if (decoder_.layers.empty()) {
      return {{}, fmt::format("it has no input {}", name_of_layer(names.past_key, 0))};
    }
    const std::string unknown = unknown_inputs();
    if (!unknown.empty()) return {{}, "it has inputs of another kind: " + unknown};
    decoder_.cache.arrays = 2 * decoder_.layers.size();
    decoder_.has_position_ids = find(inputs, names.position_ids) != nullptr;
    decoder_.writes_in_place = nodes_of(model_, "com.microsoft::GroupQueryAttention") == decoder_.layers.size();
    return {std::move(decoder_), {}};
  }

 private:
  [[nodiscard]] DecoderMatch refused() const { return {{}, obstacle_}; }

  bool has(const std::vector<SignatureEntry>& entries, const std::string& name) {
    if (find(entries, name) != nullptr) return true;
    obstacle_ = fmt::format("it has no {}", name);
    return false;
  }

  bool add_layer(std::size_t index) {
    const DecoderNames& names = decoder_.names;
    DecoderSignature::Layer layer{name_of_layer(names.past_key, index), name_of_layer(names.past_value, index),
                                  name_of_layer(names.present_key, index), name_of_layer(names.present_value, index)};
    const Signature& signature = model_.signature;
    if (!has(signature.inputs, layer.past_value) || !has(signature.outputs, layer.present_key) ||
        !has(signature.outputs, layer.present_value)) {
      return false;
    }
    for (const std::string& name : {layer.past_key, layer.past_value}) {
      if (!add_cache(*find(signature.inputs, name), index == 0 && name == layer.past_key)) return false;
    }
    decoder_.layers.push_back(std::move(layer));
    return true;
  }

  // All caches are of one shape.
  bool add_cache(const SignatureEntry& entry, bool is_first) {
    const std::vector<Dimension> dimensions = entry.type.dimensions.value_or(std::vector<Dimension>());
    constexpr std::size_t rank = 4;
    obstacle_ = fmt::format(
        "its input {} is {}, and accepted is [batch, heads, tokens, head size] of float32, float16 or "
        "bfloat16 with any number of tokens, the same for each layer",
        entry.name, to_string(entry.type));
    if (dimensions.size() != rank || dimensions[2].size) return false;
    const CacheLayout found{.heads = dimensions[1].size.value_or(0),
                            .head_size = dimensions[3].size.value_or(head_size_),
                            .type = entry.type.element};
    const bool is_floating =
        found.type == ElementType::float32 || found.type == ElementType::float16 || found.type == ElementType::bfloat16;
    if (found.heads <= 0 || found.head_size <= 0 || !is_floating) return false;
    if (!is_first) return found == decoder_.cache;
    decoder_.cache = found;
    return true;
  }

  [[nodiscard]] std::string unknown_inputs() const {
    const DecoderNames& names = decoder_.names;
    std::set<std::string_view> known{names.input_ids, names.attention_mask, names.position_ids};
    for (const DecoderSignature::Layer& layer : decoder_.layers) known.insert({layer.past_key, layer.past_value});
    std::string unknown;
    for (const SignatureEntry& entry : model_.signature.inputs) {
      if (known.contains(entry.name) || !entry.required) continue;
      unknown += (unknown.empty() ? "" : ", ") + entry.name;
    }
    return unknown;
  }

  const ModelInfo& model_;
  std::int64_t head_size_;
  DecoderSignature decoder_;
  std::string obstacle_;
};

DecoderMatch match_in_folder(const ModelInfo& model) {
  const std::optional<GenaiConfig> genai =
      model.path.empty() ? std::nullopt : read_genai_config(model.path.parent_path());
  return genai ? match_decoder(model, genai->names, genai->head_size) : match_decoder(model, {}, 0);
}

}  // namespace

DecoderMatch match_decoder(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size) {
  return Matcher(model, names, head_size).run();
}

std::optional<DecoderSignature> decoder_signature(const ModelInfo& model) {
  return match_in_folder(model).signature;
}

DecoderSignature require_decoder(const ModelInfo& model) {
  DecoderMatch match = match_in_folder(model);
  if (match.signature) return *std::move(match.signature);
  const bool makes_vectors = std::ranges::find(model.signature.outputs, "last_hidden_state", &SignatureEntry::name) !=
                             model.signature.outputs.end();
  throw Error(
      ErrorCode::invalid_model,
      fmt::format("'{}' generates no text: {}; accepted is a model with the inputs input_ids, attention_mask, "
                  "past_key_values.N.key and .value, and position_ids if it has them, and the outputs logits and "
                  "present.N.key and .value, or with the names of its genai_config.json{}",
                  model.name, match.obstacle,
                  makes_vectors ? "; 'gpux embed' makes vectors of its output last_hidden_state" : ""));
}

Verdict verdict_of_first_token(Runtime runtime) {
  const std::vector<std::uint32_t> token{0};
  const Decoder::Row row{0, token};
  if (!runtime.worker()) {
    Decoder decoder(std::move(runtime), 1);
    decoder.reserve(token.size(), {0});
    (void)decoder.run(0, {&row, 1});
    return decoder.verdict();
  }
  const DecoderSignature signature = require_decoder(runtime.info());
  NamedValues inputs = token_inputs({&row, 1}, signature);
  const CacheLayout& cache = signature.cache;
  const Value none(Tensor::allocate(cache.type, {1, cache.heads, 0, cache.head_size}));
  for (const DecoderSignature::Layer& layer : signature.layers) {
    inputs.emplace_back(layer.past_key, none);
    inputs.emplace_back(layer.past_value, none);
  }
  const NamedValues outputs = runtime.infer(inputs, {.outputs = {signature.names.logits}});
  (void)last_logits(*outputs.front().second.tensor());
  return runtime.verdict();
}

Decoder::Decoder(Runtime runtime, std::size_t slots)
    : runtime_(std::move(runtime)),
      signature_(require_decoder(runtime_.info())),
      needs_pairs_(computes_pairs(runtime_)),
      session_(std::make_unique<runtime::SessionReplica>(runtime_)),
      shared_(signature_.cache, slots),
      keeps_on_device_(session_->keeps_on_device(signature_.layers.front().present_key)) {
  signature_.writes_in_place = signature_.writes_in_place && !keeps_on_device_;
  if (signature_.writes_in_place) return;
  const std::vector<SignatureEntry>& known = runtime_.info().signature.outputs;
  const auto add_output = [&](std::string_view name) {
    outputs_.push_back(static_cast<std::size_t>(std::ranges::find(known, name, &SignatureEntry::name) - known.begin()));
  };
  add_output(signature_.names.logits);
  for (const DecoderSignature::Layer& layer : signature_.layers) {
    add_output(layer.present_key);
    add_output(layer.present_value);
  }
  none_ =
      DeviceTensor(Tensor::allocate(signature_.cache.type, {1, signature_.cache.heads, 0, signature_.cache.head_size}));
  owned_.assign(slots, std::vector<DeviceTensor>(signature_.cache.arrays, none_));
}

Decoder::~Decoder() = default;

Verdict Decoder::verdict() const {
  Verdict verdict = runtime_.verdict();
  if (keeps_on_device_) {
    verdict.notes.emplace_back("keys and values stay on the device, and each text runs alone");
  } else if (!signature_.writes_in_place) {
    verdict.notes.emplace_back("keys and values are copied at each step: the model has no GroupQueryAttention");
  }
  return verdict;
}

void Decoder::compare_rows(std::size_t vocabulary) {
  if (!needs_pairs_ || !can_batch()) return;
  needs_pairs_ = false;
  // Two tokens: the row of one that a model never learnt may be zeros, which any kernel computes alike.
  for (const std::size_t part : std::array<std::size_t, 2>{2, 3}) {
    const auto token = static_cast<std::uint32_t>(vocabulary / part);
    std::array<Row, 3> rows;
    rows.fill({0, {&token, 1}});
    const Tensor alone = run(0, std::span(rows).first(1)), together = run(0, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = together.bytes().subspan(i * alone.byte_size(), alone.byte_size());
      needs_pairs_ = needs_pairs_ || !std::ranges::equal(row, alone.bytes());
    }
  }
}

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
  NamedValues inputs = token_inputs(rows, signature_);
  NamedValues outputs;
  for (std::size_t i = 0; i < signature_.layers.size(); ++i) {
    const DecoderSignature::Layer& layer = signature_.layers[i];
    for (const bool is_value : {false, true}) {
      const Tensor rows_of_array = shared_.rows(2 * i + (is_value ? 1 : 0), first_slot, rows.size());
      inputs.emplace_back(is_value ? layer.past_value : layer.past_key, rows_of_array);
      outputs.emplace_back(is_value ? layer.present_value : layer.present_key, rows_of_array);
    }
  }
  const Value logits = session_->run_in_place(inputs, outputs, signature_.names.logits);
  return last_logits(*logits.tensor());
}

Tensor Decoder::run_alone(std::size_t slot, const Row& row) {
  const NamedValues inputs = token_inputs({&row, 1}, signature_);
  std::vector<DeviceTensor>& arrays = owned_[slot];
  NamedDeviceTensors caches;
  caches.reserve(arrays.size());
  for (std::size_t i = 0; i < signature_.layers.size(); ++i) {
    const DecoderSignature::Layer& layer = signature_.layers[i];
    caches.emplace_back(layer.past_key, first_tokens(arrays[2 * i], row.past));
    caches.emplace_back(layer.past_value, first_tokens(arrays[2 * i + 1], row.past));
  }
  NamedDeviceTensors outputs = session_->run_on_device(inputs, caches, outputs_);
  for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = std::move(outputs[i + 1].second);
  return last_logits(outputs.front().second.read());
}

void Decoder::reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) {
  if (signature_.writes_in_place) shared_.reserve(tokens, sizes);
}

std::size_t Decoder::capacity() const noexcept {
  return signature_.writes_in_place ? shared_.capacity() : std::numeric_limits<std::size_t>::max();
}

void Decoder::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  if (signature_.writes_in_place) return shared_.copy(from, to, tokens);
  for (std::size_t i = 0; i < owned_[to].size(); ++i) owned_[to][i] = first_tokens(owned_[from][i], tokens);
}

void Decoder::exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept {
  if (signature_.writes_in_place) return shared_.exchange(a, tokens_a, b, tokens_b);
  std::swap(owned_[a], owned_[b]);
}

void Decoder::release(std::size_t slot, std::size_t first, std::size_t end) noexcept {
  if (signature_.writes_in_place) return shared_.release(slot, first, end);
  try {
    for (DeviceTensor& array : owned_[slot]) array = first == 0 ? none_ : first_tokens(array, first);
  } catch (const std::exception&) {
  }
}

}  // namespace gpux::generation
