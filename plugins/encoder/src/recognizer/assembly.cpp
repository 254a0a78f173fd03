// From the facts about rows to the layers of an encoder: from its last hidden states back to its embeddings.
#include <algorithm>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

/// A residual sum: the stream plus a branch, which may be normalised before it is added.
struct Residual {
  std::size_t stream = 0, branch = 0;
  std::optional<RecognizedNorm> branch_norm;
};

class Assembler {
 public:
  Assembler(const KnownFacts& facts, std::string& why) : facts_(facts), why_(why) {}

  std::optional<RecognizedEncoder> run(std::size_t rows) {
    std::size_t at = read_final_norm(rows);
    while (sum_under(at)) {
      RecognizedLayer layer;
      const auto before_feed_forward = read_half(at, false, layer);
      const auto before = before_feed_forward ? read_half(*before_feed_forward, true, layer) : std::nullopt;
      if (!before) return std::nullopt;
      found_.layers.push_back(std::move(layer));
      at = *before;
    }
    if (found_.layers.empty()) return fail("there is no residual sum of attention and of a feed-forward layer");
    std::ranges::reverse(found_.layers);
    if (!read_embeddings(at)) return std::nullopt;
    const std::size_t hidden_size = facts_.columns_of(rows);
    for (const RecognizedLayer& layer : found_.layers) {
      if (layer.attention_output.columns != hidden_size || layer.down_projection.columns != hidden_size ||
          layer.query.inner() != hidden_size || layer.up_projection.inner() != hidden_size) {
        return fail("a layer has another hidden size than the last one");
      }
    }
    return std::move(found_);
  }

 private:
  std::optional<RecognizedEncoder> fail(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // The sum that rows are, or that they are the norm of.
  [[nodiscard]] const Sum* sum_under(std::size_t rows) const {
    if (const auto* norm = facts_.as<NormalizedRows>(rows)) rows = norm->of;
    return facts_.as<Sum>(rows);
  }

  [[nodiscard]] bool is_branch(std::size_t rows) const {
    const auto* projection = facts_.as<Projection>(rows);
    return projection != nullptr && !std::holds_alternative<StreamInput>(projection->input);
  }

  [[nodiscard]] std::optional<Residual> residual_of(const Sum& sum) const {
    std::optional<Residual> found;
    for (const auto& [branch, stream] : {std::pair{sum.right, sum.left}, {sum.left, sum.right}}) {
      Residual one{stream, branch, {}};
      if (const auto* norm = facts_.as<NormalizedRows>(branch); norm != nullptr && is_branch(norm->of)) {
        one.branch = norm->of;
        one.branch_norm = norm->norm;
      }
      if (!is_branch(one.branch)) continue;
      if (found) return std::nullopt;
      found = one;
    }
    return found;
  }

  // The rows that a branch begins with.
  [[nodiscard]] std::optional<std::size_t> input_of(const ProjectionColumns& projection) const {
    const auto* stream = std::get_if<StreamInput>(&facts_.as<Projection>(projection.of)->input);
    return stream == nullptr ? std::nullopt : std::optional(stream->of);
  }

  [[nodiscard]] std::optional<std::size_t> input_of_branch(std::size_t branch) const {
    const Projection& projection = *facts_.as<Projection>(branch);
    if (const auto* intermediate = std::get_if<IntermediateInput>(&projection.input)) {
      const auto input = input_of(intermediate->activated);
      const bool is_same = !intermediate->multiplied || input_of(*intermediate->multiplied) == input;
      return is_same ? input : std::nullopt;
    }
    const Context& context = *facts_.as<Context>(std::get<ContextInput>(projection.input).of);
    const auto input = input_of(context.scores.query.projection);
    const bool is_same =
        input_of(context.scores.key.projection) == input && input_of(context.value.projection) == input;
    return is_same ? input : std::nullopt;
  }

  // A norm over the last sum of a pre-norm encoder. Returns the rows below it.
  std::size_t read_final_norm(std::size_t rows) {
    const auto* norm = facts_.as<NormalizedRows>(rows);
    if (norm == nullptr) return rows;
    if (sum_under(norm->of) != nullptr && facts_.as<NormalizedRows>(norm->of) != nullptr) {
      found_.final_norm = norm->norm;
      return norm->of;
    }
    const auto* sum = facts_.as<Sum>(norm->of);
    const auto residual = sum == nullptr ? std::nullopt : residual_of(*sum);
    const auto input = residual ? input_of_branch(residual->branch) : std::nullopt;
    if (!input || *input == residual->stream) return rows;
    found_.final_norm = norm->norm;
    return norm->of;
  }

  // Attention or the feed-forward layer, with its norms; returns the stream before it.
  std::optional<std::size_t> read_half(std::size_t rows, bool is_attention, RecognizedLayer& layer) {
    std::optional<RecognizedNorm> sum_norm, input_norm;
    if (const auto* norm = facts_.as<NormalizedRows>(rows)) {
      sum_norm = norm->norm;
      rows = norm->of;
    }
    const auto* sum = facts_.as<Sum>(rows);
    const auto residual = sum == nullptr ? std::nullopt : residual_of(*sum);
    const char* const part = is_attention ? "attention" : "a feed-forward layer";
    if (!residual) {
      refuse(std::string("a residual sum is not one of hidden states and ") + part);
      return std::nullopt;
    }
    const auto input = input_of_branch(residual->branch);
    if (!input) {
      refuse(std::string(part) + " is of different hidden states");
      return std::nullopt;
    }
    if (*input != residual->stream) {
      const auto* norm = facts_.as<NormalizedRows>(*input);
      if (norm == nullptr || norm->of != residual->stream) {
        refuse(std::string(part) + " is added to other hidden states than those that it is computed from");
        return std::nullopt;
      }
      input_norm = norm->norm;
    }
    const Projection& branch = *facts_.as<Projection>(residual->branch);
    const bool is_right_part = std::holds_alternative<ContextInput>(branch.input) == is_attention;
    if (!is_right_part) {
      refuse("attention and feed-forward layers do not alternate");
      return std::nullopt;
    }
    (is_attention ? layer.attention_sum_norm : layer.feed_forward_sum_norm) = sum_norm;
    (is_attention ? layer.attention_input_norm : layer.feed_forward_input_norm) = input_norm;
    (is_attention ? layer.attention_branch_norm : layer.feed_forward_branch_norm) = residual->branch_norm;
    const bool is_read = is_attention ? read_attention(branch, layer) : read_feed_forward(branch, layer);
    return is_read ? std::optional(residual->stream) : std::nullopt;
  }

  [[nodiscard]] RecognizedLinear columns_of(const ProjectionColumns& columns, std::size_t count) const {
    RecognizedLinear linear = facts_.as<Projection>(columns.of)->linear;
    linear.first_column += columns.first;
    linear.first_bias += linear.bias == nullptr ? 0 : columns.first;
    linear.columns = count;
    return linear;
  }

  bool read_feed_forward(const Projection& branch, RecognizedLayer& layer) const {
    const auto& input = std::get<IntermediateInput>(branch.input);
    layer.down_projection = branch.linear;
    layer.activation = input.activation;
    const RecognizedLinear activated = columns_of(input.activated, input.columns);
    if (input.multiplied) {
      layer.gate = activated;
      layer.up_projection = columns_of(*input.multiplied, input.columns);
    } else {
      layer.up_projection = activated;
    }
    return true;
  }

  bool read_attention(const Projection& branch, RecognizedLayer& layer) {
    const Context& context = *facts_.as<Context>(std::get<ContextInput>(branch.input).of);
    const AttentionScores& scores = context.scores;
    const HeadVectors &query = scores.query, &key = scores.key, &value = context.value;
    if (key.num_heads != value.num_heads || key.head_size != query.head_size || value.head_size != query.head_size)
      return refuse("attention has keys and values of different heads");
    if (query.rotary != key.rotary) return refuse("queries and keys have different rotary positions");
    if (scores.num_heads % key.num_heads != 0)
      return refuse("attention has a number of heads that is not a multiple of its keys'");
    const RecognizedMask mask = scores.mask.value_or(RecognizedMask{});
    if (found_.num_heads == 0) {
      found_.num_heads = scores.num_heads;
      found_.num_kv_heads = key.num_heads;
      found_.head_size = query.head_size;
      found_.mask = mask;
      found_.bias = scores.bias;
    }
    const bool has_same_bias = scores.bias.has_value() == found_.bias.has_value() &&
                               (!scores.bias || same(*scores.bias->expression, *found_.bias->expression));
    if (found_.num_heads != scores.num_heads || found_.num_kv_heads != key.num_heads ||
        found_.head_size != query.head_size || !(found_.mask == mask) || !has_same_bias) {
      return refuse("layers have different heads, masks or position biases");
    }
    layer.query = columns_of(query.projection, query.num_heads * query.head_size);
    layer.key = columns_of(key.projection, key.num_heads * key.head_size);
    layer.value = columns_of(value.projection, value.num_heads * value.head_size);
    layer.attention_output = branch.linear;
    layer.query_norm = query.norm;
    layer.key_norm = key.norm;
    layer.rotary = query.rotary;
    layer.left = scores.left;
    layer.right = scores.right;
    layer.score_scale = static_cast<float>(scores.scale);
    layer.disentangled = scores.disentangled;
    if (!layer.disentangled) return true;
    if (!first_bucket_) first_bucket_ = layer.disentangled;
    return same(*first_bucket_->bucket, *layer.disentangled->bucket) ||
           refuse("layers have different relative positions");
  }

  bool read_embeddings(std::size_t rows) {
    if (const auto* masked = facts_.as<MaskedRows>(rows)) {
      // Without a mask of the attention, its source is that of the embeddings.
      if (!(masked->mask == found_.mask.source)) return refuse("embeddings are masked by another mask than attention");
      found_.zero_masked_embeddings = true;
      rows = masked->of;
    }
    std::optional<RecognizedNorm> outer_norm;
    if (const auto* norm = facts_.as<NormalizedRows>(rows)) {
      outer_norm = norm->norm;
      rows = norm->of;
    }
    if (const auto* projection = facts_.as<Projection>(rows)) {
      const auto* stream = std::get_if<StreamInput>(&projection->input);
      if (stream == nullptr) return refuse("recognition ends before the embeddings");
      found_.embedding_projection = projection->linear;
      found_.projected_embedding_norm = outer_norm;
      outer_norm.reset();
      rows = stream->of;
      if (const auto* norm = facts_.as<NormalizedRows>(rows)) {
        outer_norm = norm->norm;
        rows = norm->of;
      }
    }
    const auto* embedded = facts_.as<EmbeddedRows>(rows);
    if (embedded == nullptr) return refuse("recognition ends before the embeddings");
    found_.embedding_norm = outer_norm;
    found_.embeddings = embedded->embeddings;
    return true;
  }

  const KnownFacts& facts_;
  std::string& why_;
  RecognizedEncoder found_;
  std::optional<RecognizedDisentangled> first_bucket_;
};

}  // namespace

std::optional<RecognizedEncoder> assembled(std::size_t rows, const KnownFacts& facts, std::string& why) {
  return Assembler(facts, why).run(rows);
}

}  // namespace gpux_cpu::encoder
