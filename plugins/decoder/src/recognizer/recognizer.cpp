#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "recognizer/decoder_check.h"
#include "recognizer/graph_index.h"
#include "recognizer/matrices.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {
namespace {

using Integers = std::vector<std::int64_t>;

/// A number for each row of the batch, or for all: the mask's ones in a row, or its width, plus `offset`.
struct MaskCount {
  enum class Kind : std::uint8_t { tokens, width, shape };

  Kind kind = Kind::tokens;
  std::int64_t offset = 0;
  std::string mask;
};

/// Hidden states, and the two values that they are the sum of. A node that adds and normalizes may have no output for
/// the sum.
struct Stream {
  std::string name;
  const Node* sum = nullptr;
};

class Recognizer {
 public:
  Recognizer(const Graph& graph, const CacheTypes& caches) : index_(graph), caches_(caches) {}

  RecognizedDecoder recognize() {
    Stream stream = read_head();
    while (stream.sum != nullptr && !read_positions(stream)) stream = read_layer(stream);
    std::ranges::reverse(found_.layers);
    read_tokens(stream.name);
    if (found_.layers.empty()) throw index_.not_understood(stream.name);
    require_fitting_sizes(found_);
    require_values_inside(found_, index_);
    found_.nodes = index_.understood();
    found_.owned = index_.owned();
    return std::move(found_);
  }

 private:
  // The logits are the output that is no key or value.
  [[nodiscard]] std::string logits() const {
    std::set<std::string> presents;
    for (const Node& node : index_.graph().nodes) {
      if (node.type == "GroupQueryAttention") presents.insert(node.outputs.begin(), node.outputs.end());
    }
    if (presents.empty()) throw NotRecognized("it has no GroupQueryAttention");
    for (const Node& node : index_.graph().nodes) {
      if (stores_rows(node) && presents.contains(input_of(node, 0))) presents.insert(node.outputs.front());
    }
    std::vector<std::string> others;
    for (const std::string& output : index_.graph().outputs) {
      if (!presents.contains(output)) others.push_back(output);
    }
    if (others.size() == 1) return others.front();
    throw NotRecognized("it has " + std::to_string(others.size()) +
                        " outputs beside keys and values; accepted: the logits");
  }

  // Through nodes that add and remove the axis of the sequence, which has one token.
  std::string without_axes(std::string value, int& rank) {
    for (;;) {
      const Node* node = index_.producer(value, "Unsqueeze");
      if (node == nullptr) node = index_.producer(value, "Squeeze");
      if (node == nullptr || index_.integers(input_of(*node, 1)) != Integers{1}) return value;
      index_.understand(node);
      rank += node->type == "Unsqueeze" ? 1 : -1;
      value = input_of(*node, 0);
    }
  }

  // cap * tanh(x / cap)
  std::string without_soft_cap(const std::string& value) {
    const Node* const multiply = index_.producer(value, "Mul");
    if (multiply == nullptr) return value;
    for (const std::size_t side : {0, 1}) {
      const auto cap = index_.scalar(input_of(*multiply, 1 - side));
      const Node* const tanh = index_.producer(input_of(*multiply, side), "Tanh");
      if (!cap || tanh == nullptr || *cap <= 0) continue;
      const Node* const divide = index_.producer(input_of(*tanh, 0), "Div");
      if (divide == nullptr || index_.scalar(input_of(*divide, 1)) != cap) continue;
      found_.logit_soft_cap = *cap;
      for (const Node* const node : {multiply, tanh, divide}) index_.understand(node);
      return input_of(*divide, 0);
    }
    return value;
  }

  std::string without_divisor(const std::string& value) {
    const Node* const divide = index_.producer(value, "Div");
    const auto divisor = divide == nullptr ? std::nullopt : index_.scalar(input_of(*divide, 1));
    if (!divisor || *divisor == 0) return value;
    found_.logit_divisor = *divisor;
    index_.understand(divide);
    return input_of(*divide, 0);
  }

  // The hidden states of all tokens, of which the value has the last ones.
  std::string before_last_token(const std::string& value, int& rank) {
    const std::string last = without_axes(value, rank);
    if (const Node* const slice = index_.producer(last, "Slice")) {
      const auto ends = index_.integers(input_of(*slice, 2));
      const bool is_last = index_.integers(input_of(*slice, 1)) == Integers{-1} && ends && ends->size() == 1 &&
                           ends->front() >= INT32_MAX && index_.integers(input_of(*slice, 3)) == Integers{1} &&
                           (input_of(*slice, 4).empty() || index_.integers(input_of(*slice, 4)) == Integers{1});
      if (is_last) {
        index_.understand(slice);
        return input_of(*slice, 0);
      }
    }
    if (const Node* const gather = index_.producer(last, "Gather")) {
      if (integer_of(*gather, "axis", 0) == 1 && index_.integers(input_of(*gather, 1)) == Integers{-1}) {
        index_.understand(gather);
        if (index_.constant(input_of(*gather, 1))->shape.empty()) --rank;
        return input_of(*gather, 0);
      }
    }
    throw NotRecognized("its logits are not those of the last token alone: " +
                        std::string(index_.not_understood(last).what()));
  }

  Stream read_head() {
    found_.logits = logits();
    constexpr int hidden_rank = 3;
    int rank = hidden_rank;
    const std::string products =
        without_axes(without_divisor(without_soft_cap(without_axes(found_.logits, rank))), rank);
    auto head = matrix_product(index_, products);
    if (!head) throw index_.not_understood(products);
    found_.language_head = head->matrix;
    const std::string hidden = before_last_token(head->input, rank);
    if (rank != hidden_rank) throw NotRecognized("its logits are not [batch, 1, vocabulary]");
    return normalized(hidden, found_.final_norm);
  }

  // What a norm reads, or the value itself.
  Stream normalized(const std::string& value, std::optional<RecognizedNorm>& norm) {
    const auto found = norm_of(index_, value);
    if (!found) return stream_of(value);
    norm = found->norm;
    if (found->sum == nullptr) return stream_of(found->input);
    return {sum_name(*found->sum), found->sum};
  }

  static std::string sum_name(const Node& node) {
    constexpr std::size_t sum = 3;
    return node.outputs.size() > sum && !node.outputs[sum].empty() ? node.outputs[sum]
                                                                   : node.outputs.front() + " (sum)";
  }

  Stream stream_of(const std::string& value) {
    const Node* const node = index_.producer(value);
    if (node == nullptr) return {value, nullptr};
    const bool is_skip = node->type == "SkipSimplifiedLayerNormalization" || node->type == "SkipLayerNormalization";
    const bool is_sum = node->type == "Add" || (is_skip && sum_name(*node) == value);
    return {value, is_sum ? node : nullptr};
  }

  /// One of the two values of a sum, and the other one.
  struct Branch {
    std::string value, rest;
  };

  static std::array<Branch, 2> branches_of(const Node& sum) {
    const std::string &a = input_of(sum, 0), &b = input_of(sum, 1);
    return {Branch{a, b}, Branch{b, a}};
  }

  // Feed-forward, then attention: a layer from its end.
  Stream read_layer(const Stream& end) {
    RecognizedLayer layer;
    const Stream middle = read_feed_forward(end, layer);
    if (middle.sum == nullptr) throw index_.not_understood(middle.name);
    const Stream start = read_attention(middle, layer);
    found_.layers.push_back(std::move(layer));
    return start;
  }

  /// A branch's last matrix, and what becomes of its rows before they are added.
  struct BranchEnd {
    MatrixProduct product;
    std::optional<RecognizedNorm> norm;
    float factor = 1;
  };

  // A product of a matrix, maybe with a norm and a factor behind it.
  std::optional<BranchEnd> branch_end(const std::string& value) {
    BranchEnd end;
    std::string product = value;
    const Node* const multiply = index_.producer(value, "Mul");
    for (const std::size_t side : {0, 1}) {
      const auto factor = multiply == nullptr ? std::nullopt : index_.scalar(input_of(*multiply, 1 - side));
      if (!factor) continue;
      end.factor = *factor;
      product = input_of(*multiply, side);
      break;
    }
    if (const auto found = norm_of(index_, product); found && found->sum == nullptr) {
      end.norm = found->norm;
      product = found->input;
    }
    auto found = matrix_product(index_, product);
    if (!found) return std::nullopt;
    end.product = std::move(*found);
    if (multiply != nullptr) index_.understand(multiply);
    return end;
  }

  void require_stream(const Stream& stream, const std::string& rest) {
    if (stream.name != rest) throw index_.not_understood(rest);
  }

  // The node that the value comes from, maybe through a Cast.
  [[nodiscard]] const Node* attention_at(const std::string& value) const {
    constexpr std::string_view type = "com.microsoft.GroupQueryAttention";
    const Node* const cast = index_.producer(value, "Cast");
    return index_.producer(cast == nullptr ? value : input_of(*cast, 0), type);
  }

  Stream read_feed_forward(const Stream& end, RecognizedLayer& layer) {
    for (const auto& [value, rest] : branches_of(*end.sum)) {
      const auto down = branch_end(value);
      if (!down || attention_at(down->product.input) != nullptr) continue;
      index_.understand(end.sum);
      layer.feed_forward_branch_norm = down->norm;
      layer.feed_forward_branch_factor = down->factor;
      layer.down = down->product.matrix;
      const std::string input = read_expansion(down->product.input, layer);
      const Stream stream = normalized(input, layer.feed_forward_input_norm);
      require_stream(stream, rest);
      return stream;
    }
    throw index_.not_understood(input_of(*end.sum, 0));
  }

  // activation(up(x)), or activation(gate(x)) * up(x). Returns x.
  std::string read_expansion(const std::string& value, RecognizedLayer& layer) {
    if (const auto activated = activation_of(index_, value)) {
      const auto up = matrix_product(index_, activated->input);
      if (!up) throw index_.not_understood(activated->input);
      layer.activation = activated->activation;
      layer.up = up->matrix;
      return up->input;
    }
    const Node* const multiply = index_.producer(value, "Mul");
    if (multiply == nullptr) throw index_.not_understood(value);
    for (const std::size_t side : {0, 1}) {
      const auto activated = activation_of(index_, input_of(*multiply, side));
      if (!activated) continue;
      const auto gate = matrix_product(index_, activated->input);
      const auto up = matrix_product(index_, input_of(*multiply, 1 - side));
      if (!gate) throw index_.not_understood(activated->input);
      if (!up) throw index_.not_understood(input_of(*multiply, 1 - side));
      if (up->input != gate->input) throw index_.not_understood(value);
      index_.understand(multiply);
      layer.activation = activated->activation;
      layer.gate = gate->matrix;
      layer.up = up->matrix;
      return up->input;
    }
    throw index_.not_understood(input_of(*multiply, 0));
  }

  Stream read_attention(const Stream& end, RecognizedLayer& layer) {
    for (const auto& [value, rest] : branches_of(*end.sum)) {
      const auto output = branch_end(value);
      if (!output) continue;
      const Node* const attention = attention_at(output->product.input);
      if (attention == nullptr) continue;
      (void)without_cast(output->product.input);
      index_.understand(end.sum);
      index_.understand(attention);
      layer.attention_branch_norm = output->norm;
      layer.attention_branch_factor = output->factor;
      layer.attention_output = output->product.matrix;
      const std::string input = read_group_query_attention(*attention, layer);
      const Stream stream = normalized(input, layer.attention_input_norm);
      require_stream(stream, rest);
      return stream;
    }
    throw index_.not_understood(input_of(*end.sum, 0));
  }

  [[nodiscard]] static NotRecognized refusal(const Node& node, const std::string& reason) {
    return NotRecognized(node.type + " '" + node.name + "' " + reason);
  }

  static void check_attributes(const Node& node) {
    constexpr std::array known{"num_heads",      "kv_num_heads",      "scale",
                               "softcap",        "do_rotary",         "rotary_interleaved",
                               "smooth_softmax", "local_window_size", "qk_output",
                               "k_quant_type",   "v_quant_type",      "sliding_window_cache",
                               "causal",         "qk_norm_epsilon",   "kv_cache_bit_width"};
    for (const auto& [name, attribute] : node.attributes) {
      if (std::ranges::find(known, name) == known.end()) throw refusal(node, "has the attribute " + name);
    }
    const auto require = [&](std::string_view attribute, std::int64_t value) {
      if (integer_of(node, attribute, value) == value) return;
      throw refusal(node, "has " + std::string(attribute) + " " + std::to_string(integer_of(node, attribute, value)) +
                              "; accepted: " + std::to_string(value));
    };
    require("qk_output", 0);
    require("sliding_window_cache", 0);
    require("causal", 1);
    require("kv_cache_bit_width", 0);
    if (integer_of(node, "smooth_softmax", 0) > 0) throw refusal(node, "has smooth_softmax");
    for (const char* const attribute : {"k_quant_type", "v_quant_type"}) {
      const auto found = node.attributes.find(attribute);
      if (found != node.attributes.end() && found->second.text != "NONE") {
        throw refusal(node, "has quantized keys and values");
      }
    }
  }

  void take_heads(const Node& node) {
    const auto heads = integer_of(node, "num_heads", 0), kv_heads = integer_of(node, "kv_num_heads", 0);
    if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0) throw refusal(node, "has no numbers of heads");
    if (found_.heads == 0) {
      found_.heads = static_cast<std::size_t>(heads);
      found_.kv_heads = static_cast<std::size_t>(kv_heads);
    }
    if (found_.heads != static_cast<std::size_t>(heads) || found_.kv_heads != static_cast<std::size_t>(kv_heads)) {
      throw refusal(node, "has other numbers of heads than the layers behind it");
    }
  }

  // The value, or what a Cast to or from float16 makes of it: a cache of float16 has such queries.
  std::string without_cast(const std::string& value) {
    const Node* const cast = index_.producer(value, "Cast");
    constexpr std::int64_t type_float = 1, type_half = 10;
    if (cast == nullptr) return value;
    const std::int64_t to = integer_of(*cast, "to", 0);
    if (to != type_float && to != type_half) return value;
    index_.understand(cast);
    return input_of(*cast, 0);
  }

  // A norm over each head, between two Reshapes, or over all heads.
  MatrixProduct read_heads(const std::string& given, std::size_t heads, std::optional<RecognizedNorm>& norm) {
    const std::string value = without_cast(given);
    std::string product = value;
    if (const Node* const flat = index_.producer(value, "Reshape")) {
      const auto found = norm_of(index_, input_of(*flat, 0));
      if (!found || found->sum != nullptr) throw index_.not_understood(value);
      const Node* const split = index_.producer(found->input, "Reshape");
      if (split == nullptr) throw index_.not_understood(value);
      const auto sizes = index_.integers(input_of(*split, 1)), flat_sizes = index_.integers(input_of(*flat, 1));
      const auto head_size = static_cast<std::int64_t>(found->norm.size());
      const auto all = static_cast<std::int64_t>(heads) * head_size;
      if (sizes != Integers{0, 0, static_cast<std::int64_t>(heads), head_size} &&
          sizes != Integers{0, 0, -1, head_size}) {
        throw index_.not_understood(found->input);
      }
      if (flat_sizes != Integers{0, 0, -1} && flat_sizes != Integers{0, 0, all}) throw index_.not_understood(value);
      index_.understand(flat);
      index_.understand(split);
      norm = found->norm;
      product = input_of(*split, 0);
    } else if (const auto whole = norm_of(index_, value); whole && whole->sum == nullptr) {
      norm = whole->norm;
      product = whole->input;
    }
    const auto found = matrix_product(index_, product);
    if (!found) throw index_.not_understood(product);
    return *found;
  }

  std::string read_group_query_attention(const Node& node, RecognizedLayer& layer) {
    check_attributes(node);
    take_heads(node);
    constexpr std::size_t last_known_input = 8;
    for (std::size_t i = last_known_input + 1; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].empty()) throw refusal(node, "has the input " + node.inputs[i]);
    }
    const MatrixProduct query = read_heads(input_of(node, 0), found_.heads, layer.query_norm);
    layer.query = query.matrix;
    std::size_t all_heads = found_.heads;
    if (input_of(node, 1).empty()) {
      if (layer.query_norm) throw refusal(node, "has a norm of queries, keys and values together");
      all_heads += 2 * found_.kv_heads;
    } else {
      const MatrixProduct key = read_heads(input_of(node, 1), found_.kv_heads, layer.key_norm);
      std::optional<RecognizedNorm> value_norm;
      const MatrixProduct value = read_heads(input_of(node, 2), found_.kv_heads, value_norm);
      if (value_norm) throw refusal(node, "has a norm of values");
      if (key.input != query.input || value.input != query.input) {
        throw refusal(node, "has queries, keys and values of different hidden states");
      }
      layer.key = key.matrix;
      layer.value = value.matrix;
    }
    const std::size_t head_size = layer.query.columns / all_heads;
    if (found_.head_size == 0) found_.head_size = head_size;
    if (head_size != found_.head_size || layer.query.columns != all_heads * head_size || head_size == 0) {
      throw refusal(node, "has another head size than the layers behind it");
    }
    const float scale = number_of(node, "scale", 0);
    layer.rules.scale = scale != 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_size));
    layer.rules.soft_cap = std::max(0.0F, number_of(node, "softcap", 0));
    const std::int64_t window = integer_of(node, "local_window_size", -1);
    layer.rules.window = window > 0 ? static_cast<std::size_t>(window) : 0;
    read_rotary(node, layer);
    read_cache(node, layer);
    read_mask(node);
    return query.input;
  }

  void read_rotary(const Node& node, RecognizedLayer& layer) {
    if (integer_of(node, "do_rotary", 0) == 0) return;
    RecognizedRotary rotary{.cosines = index_.constant(input_of(node, 7)),
                            .sines = index_.constant(input_of(node, 8)),
                            .interleaved = integer_of(node, "rotary_interleaved", 0) != 0};
    const auto is_table = [&](const Constant* table) {
      return table != nullptr && table->element_type == ElementType::float32 && table->shape.size() == 2 &&
             table->shape[0] > 0 && table->shape[1] > 0 &&
             static_cast<std::size_t>(2 * table->shape[1]) <= found_.head_size;
    };
    if (!is_table(rotary.cosines) || !is_table(rotary.sines) || rotary.cosines->shape != rotary.sines->shape) {
      throw refusal(node, "has no constant tables of cosines and sines");
    }
    layer.rotary = rotary;
  }

  // Functions that gpux writes into a model whose keys and values it has in int8.
  [[nodiscard]] static bool is_function_of_rows(const Node& node, std::string_view type) {
    return node.domain == "gpux.int8_rows" && node.type == type;
  }

  // Whether the node makes what is stored of keys or values.
  [[nodiscard]] static bool stores_rows(const Node& node) {
    return node.type == "Cast" || is_function_of_rows(node, "ToInt8Rows");
  }

  // The input of the model that float32 is made of, or the value itself.
  std::string stored_input(const std::string& value) {
    constexpr std::int64_t type_float = 1;
    const Node* const node = index_.producer(value);
    if (node == nullptr) return value;
    const bool is_cast = node->domain.empty() && node->type == "Cast" && integer_of(*node, "to", 0) == type_float;
    if (!is_cast && !is_function_of_rows(*node, "FromInt8Rows")) return value;
    index_.understand(node);
    return input_of(*node, 0);
  }

  // The output of the model that is made of the value, or the value itself.
  std::string stored_output(const std::string& value) {
    const auto& outputs = index_.graph().outputs;
    if (std::ranges::find(outputs, value) != outputs.end()) return value;
    for (const Node& node : index_.graph().nodes) {
      if (!stores_rows(node) || input_of(node, 0) != value) continue;
      index_.understand(&node);
      return node.outputs.front();
    }
    return value;
  }

  // What the keys or values of an input are, whose reader is a function for int8 rows and no other.
  [[nodiscard]] std::optional<CacheForm> form_of(const std::string& past) const {
    const auto type = caches_.find(past);
    if (type == caches_.end()) return std::nullopt;
    if (type->second == ElementType::float32) return CacheForm::float32;
    if (type->second == ElementType::float16) return CacheForm::float16;
    if (type->second != ElementType::int8) return std::nullopt;
    const bool has_rows = std::ranges::any_of(index_.graph().nodes, [&](const Node& node) {
      return is_function_of_rows(node, "FromInt8Rows") && input_of(node, 0) == past;
    });
    return has_rows ? std::optional(CacheForm::int8) : std::nullopt;
  }

  void read_cache(const Node& node, RecognizedLayer& layer) {
    layer.cache = {stored_input(input_of(node, 3)), stored_input(input_of(node, 4)),
                   node.outputs.size() > 1 ? stored_output(node.outputs[1]) : "",
                   node.outputs.size() > 2 ? stored_output(node.outputs[2]) : ""};
    for (const std::string* const past : {&layer.cache.past_key, &layer.cache.past_value}) {
      if (!caches_.contains(*past)) throw refusal(node, "has keys and values that are no inputs of the model");
      const std::optional<CacheForm> form = form_of(*past);
      if (!form) throw refusal(node, "has keys and values of another type than float32, float16 and gpux's int8");
      if (*form == CacheForm::int8 && cache_block_size(found_.head_size) == 0) {
        throw refusal(node, "has keys and values in int8 of a head size that is no multiple of 16");
      }
      if (!cache_is_known_) found_.cache_form = *form;
      cache_is_known_ = true;
      if (found_.cache_form != *form) throw refusal(node, "has keys and values of another type than the others");
    }
    for (const std::string& present : {layer.cache.present_key, layer.cache.present_value}) {
      const auto& outputs = index_.graph().outputs;
      if (std::ranges::find(outputs, present) == outputs.end()) {
        throw refusal(node, "has keys and values that are no outputs of the model");
      }
    }
  }

  // seqlens_k: the mask's ones in each row, less one. total_sequence_length: the mask's width.
  void read_mask(const Node& node) {
    const auto tokens = mask_count(input_of(node, 5)), width = mask_count(input_of(node, 6));
    if (!tokens || tokens->kind != MaskCount::Kind::tokens || tokens->offset != -1) {
      throw index_.not_understood(input_of(node, 5));
    }
    if (!width || width->kind != MaskCount::Kind::width || width->offset != 0 || width->mask != tokens->mask) {
      throw index_.not_understood(input_of(node, 6));
    }
    if (found_.attention_mask.empty()) found_.attention_mask = tokens->mask;
    if (found_.attention_mask != tokens->mask) throw index_.not_understood(input_of(node, 5));
  }

  // Rows of a table of positions that are added to the tokens: the number of a row's tokens before this run, and on.
  bool read_positions(Stream& stream) {
    for (const auto& [value, rest] : branches_of(*stream.sum)) {
      const Node* const gather = index_.producer(value, "Gather");
      if (gather == nullptr || integer_of(*gather, "axis", 0) != 0) continue;
      const Constant* const table = index_.constant(input_of(*gather, 0));
      if (table == nullptr || table->element_type != ElementType::float32 || table->shape.size() != 2) continue;
      if (!read_token_positions(input_of(*gather, 1))) continue;
      found_.positions = table;
      index_.understand(gather);
      index_.understand(stream.sum);
      stream = {rest, nullptr};
      return true;
    }
    return false;
  }

  // ReduceSum(attention_mask) - tokens + Range(0, tokens, 1), [batch, tokens]; tokens: the width of input_ids
  bool read_token_positions(const std::string& value) {
    const Node* const add = index_.producer(value, "Add");
    if (add == nullptr) return false;
    for (const auto& [past, steps] : branches_of(*add)) {
      const Node* const subtract = index_.producer(past, "Sub");
      const Node* const range = index_.producer(steps, "Range");
      if (subtract == nullptr || range == nullptr) continue;
      const Node* const sum = index_.producer(input_of(*subtract, 0), "ReduceSum");
      if (sum == nullptr || integer_of(*sum, "keepdims", 1) != 1) continue;
      const auto all = mask_count(input_of(*subtract, 0));
      if (!all || all->kind != MaskCount::Kind::tokens || all->mask != found_.attention_mask) continue;
      const std::string own = input_of_width(input_of(*subtract, 1));
      if (own.empty() || own != input_of_width(input_of(*range, 1))) continue;
      if (index_.integers(input_of(*range, 0)) != Integers{0} || index_.integers(input_of(*range, 2)) != Integers{1}) {
        continue;
      }
      positioned_ids_ = own;
      for (const Node* const node : {add, subtract, range}) index_.understand(node);
      return true;
    }
    return false;
  }

  // The input that is as wide as the value says; empty: none.
  std::string input_of_width(const std::string& value) {
    const auto width = mask_count(value);
    return width && width->kind == MaskCount::Kind::width && width->offset == 0 ? width->mask : std::string();
  }

  std::optional<MaskCount> mask_count(const std::string& value, int depth = 0) {
    const Node* const node = index_.producer(value);
    constexpr int max_depth = 16;
    if (node == nullptr || depth > max_depth) return std::nullopt;
    const std::string& input = input_of(*node, 0);
    std::optional<MaskCount> found;
    if (node->type == "ReduceSum") {
      const auto axes = index_.integers(input_of(*node, 1));
      const std::string mask = without_integer_cast(input);
      if ((axes == Integers{1} || axes == Integers{-1}) && is_mask(mask)) found = {MaskCount::Kind::tokens, 0, mask};
    } else if (node->type == "Shape") {
      const std::int64_t start = integer_of(*node, "start", 0), end = integer_of(*node, "end", INT64_MAX);
      if (is_mask(input) && start == 0 && end >= 2) found = {MaskCount::Kind::shape, 0, input};
      if (is_mask(input) && (start == 1 || start == -1) && end >= 2) found = {MaskCount::Kind::width, 0, input};
    } else if (node->type == "Gather") {
      const auto indices = index_.integers(input_of(*node, 1));
      found = mask_count(input, depth + 1);
      const bool is_width = indices == Integers{1} || indices == Integers{-1};
      if (!found || found->kind != MaskCount::Kind::shape || !is_width) return std::nullopt;
      found->kind = MaskCount::Kind::width;
    } else if (node->type == "Sub" || node->type == "Add") {
      const auto added = index_.integers(input_of(*node, 1));
      found = mask_count(input, depth + 1);
      if (!found || !added || added->size() != 1 || found->kind == MaskCount::Kind::shape) return std::nullopt;
      found->offset += node->type == "Sub" ? -added->front() : added->front();
    } else if (node->type == "Cast") {
      constexpr std::int64_t type_int32 = 6, type_int64 = 7;
      const std::int64_t to = integer_of(*node, "to", 0);
      if (to == type_int32 || to == type_int64) found = mask_count(input, depth + 1);
    } else if (node->type == "Squeeze" || node->type == "Unsqueeze" || node->type == "Identity") {
      found = mask_count(input, depth + 1);
    }
    if (found) index_.understand(node);
    return found;
  }

  std::string without_integer_cast(const std::string& value) {
    const Node* const cast = index_.producer(value, "Cast");
    if (cast == nullptr || !is_mask(input_of(*cast, 0))) return value;
    index_.understand(cast);
    return input_of(*cast, 0);
  }

  [[nodiscard]] bool is_mask(const std::string& value) const {
    return std::ranges::any_of(index_.graph().inputs, [&](const auto& input) { return input.name == value; });
  }

  void read_tokens(const std::string& value) {
    const auto lookup = token_lookup(index_, value);
    if (!lookup || !is_mask(lookup->input_ids)) throw index_.not_understood(value);
    if (found_.positions != nullptr && positioned_ids_ != lookup->input_ids) throw index_.not_understood(value);
    found_.input_ids = lookup->input_ids;
    found_.tokens = lookup->table;
    found_.token_scale = lookup->scale;
    found_.hidden_size = lookup->table.inner;
  }

  GraphIndex index_;
  const CacheTypes& caches_;
  RecognizedDecoder found_;
  bool cache_is_known_ = false;
  std::string positioned_ids_;  ///< the input whose width is the number of tokens with positions
};

}  // namespace

std::optional<RecognizedDecoder> recognize(const Graph& graph, const CacheTypes& caches, std::string& reason) {
  try {
    return Recognizer(graph, caches).recognize();
  } catch (const NotRecognized& error) {
    reason = error.what();
    return std::nullopt;
  }
}

}  // namespace gpux_cpu::decoder
