#include "recognizer/recognizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

/// The outputs of an encoder at which a graph can be divided.
struct End {
  std::string vectors, hidden_states;
  PooledVectors pooled;
  std::optional<RecognizedMaskedLm> masked_lm;
};

class Recognizer {
 public:
  /// The input of ids and the size of the vocabulary, if they are known from an earlier pass.
  Recognizer(const Graph& graph, std::string& reason, std::string ids = {}, std::size_t vocabulary = 0)
      : graph_(graph), facts_(graph), reason_(reason) {
    facts_.input_ids = std::move(ids);
    facts_.vocabulary_size = vocabulary;
  }

  std::optional<RecognizedEncoder> run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& output : graph_.nodes[i].outputs) maker_[output] = i;
      if (!graph_.nodes[i].outputs.empty()) read(graph_.nodes[i]);
    }
    return conclude();
  }

  /// Masks depend on input_ids, but were read before the embeddings, which show that the input is input_ids.
  [[nodiscard]] bool knew_ids_too_late() const { return facts_.masks_before_input_ids.contains(facts_.input_ids); }

  [[nodiscard]] const KnownFacts& facts() const noexcept { return facts_; }

 private:
  void read(const Node& node) {
    const std::string& output = node.outputs.front();
    if (is_identity(node)) {
      facts_.set_alias(node.inputs[0], output);
      return;
    }
    if (node.type == "Split") {
      const auto inputs = symbolic_inputs(node);
      std::vector<SymbolicTensor> parts = inputs ? split_of(node, *inputs) : std::vector<SymbolicTensor>();
      for (std::size_t i = 0; i < parts.size(); ++i) facts_.set(node.outputs[i], std::move(parts[i]));
      if (!parts.empty()) return;
    }
    Fact fact = derive(node);
    if (auto* unknown = std::get_if<Unknown>(&fact)) explain(node, *unknown);
    facts_.set(output, std::move(fact));
  }

  // A node whose output is its input.
  [[nodiscard]] bool is_identity(const Node& node) const {
    if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return false;
    if (node.type == "Identity") return true;
    if (node.type == "Dropout") {
      // In training mode it is not.
      const bool trains = node.inputs.size() > 2 && !node.inputs[2].empty() && facts_.scalar(node.inputs[2]) != 0.0;
      return !trains;
    }
    return false;
  }

  Fact derive(const Node& node) {
    if (node.type == "Shape") return shape(node);
    using Derivation = Fact (*)(const Node&, KnownFacts&);
    for (const Derivation one :
         {derive_norm, derive_product, derive_attention, derive_attention_node, derive_activation, derive_pooling}) {
      Fact fact = one(node, facts_);
      const auto* unknown = std::get_if<Unknown>(&fact);
      if (unknown == nullptr || !unknown->why.empty()) return fact;
    }
    const auto inputs = symbolic_inputs(node);
    auto result = inputs ? symbolic_tensor_of(node, *inputs) : std::nullopt;
    return result ? settled(node, *std::move(result), facts_) : Fact(Unknown{});
  }

  [[nodiscard]] std::optional<std::vector<const SymbolicTensor*>> symbolic_inputs(const Node& node) const {
    std::vector<const SymbolicTensor*> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(facts_.input(node, i));
      if (!node.inputs[i].empty() && inputs.back() == nullptr) return std::nullopt;
    }
    return inputs;
  }

  Fact shape(const Node& node) const {
    const SymbolicTensor* of = facts_.input(node, 0);
    if (of == nullptr) return Unknown{};
    const auto rank = static_cast<std::int64_t>(of->shape.size());
    const auto bounded = [rank](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t start = bounded(integer(node, "start", 0)), end = bounded(integer(node, "end", rank));
    return symbolic_tensor_of(Shape(of->shape.begin() + start, of->shape.begin() + std::max(start, end)));
  }

  // The reason for an Unknown: that of its input, or this node.
  void explain(const Node& node, Unknown& unknown) {
    const auto origin = std::ranges::find_if(node.inputs, [&](const std::string& input) {
      const Unknown* before = facts_.unknown(input);
      return before != nullptr && !before->why.empty();
    });
    const bool touches_rows = std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const SymbolicTensor* before = facts_.tensor(input);
      return before != nullptr && contains(*before->expression, [](const Expression& one) {
               return one.kind == Expression::Kind::computed;
             });
    });
    if (origin != node.inputs.end()) {
      unknown = *facts_.unknown(*origin);
    } else if (unknown.why.empty()) {
      unknown.why = named(node) + " is not understood";
    }
    if (touches_rows && first_at_rows_.empty()) first_at_rows_ = unknown.why;
    if (first_.empty() || node.type == "LayerNormalization") first_ = unknown.why;
  }

  std::optional<RecognizedEncoder> fail(std::string why) const {
    reason_ = std::move(why);
    return std::nullopt;
  }

  // The last rows of an encoder: the last ones that can be assembled.
  std::optional<RecognizedEncoder> last_encoder(std::size_t& rows, std::string& why) const {
    for (std::size_t i = facts_.computed_count(); i-- > 0;) {
      const bool may_be_last =
          std::holds_alternative<NormalizedRows>(facts_.computed(i)) || std::holds_alternative<Sum>(facts_.computed(i));
      if (!may_be_last) continue;
      std::string wrong;
      auto found = assembled(i, facts_, wrong);
      if (why.empty()) why = wrong;
      if (!found) continue;
      rows = i;
      return found;
    }
    return std::nullopt;
  }

  std::optional<RecognizedEncoder> conclude() {
    if (facts_.input_ids.empty()) {
      return fail("there are no embeddings of words that hidden states are computed from" +
                  (first_.empty() ? std::string() : ": " + first_));
    }
    std::size_t rows = 0;
    std::string why;
    auto found = last_encoder(rows, why);
    if (!found) {
      const std::string& reason = first_at_rows_.empty() ? (first_.empty() ? why : first_) : first_at_rows_;
      return fail("no layer of attention and feed-forward is recognised: " +
                  (reason.empty() ? "the graph ends" : reason));
    }
    found->owned_data = facts_.owned_data;
    found->owned_constants = facts_.owned_constants;
    if (const MaskSource& mask = found->mask.source; !mask.input.empty() && !mask.masked_id) {
      // Their values are not 0 and 1.
      if (mask.input == found->embeddings.input_ids)
        return fail("the mask depends on input_ids in a way that is not understood");
      if (mask.input == found->embeddings.token_type_ids) return fail("the mask depends on token_type_ids");
    }
    why.clear();
    for (const End& end : ends(rows, *found)) {
      RecognizedEncoder result = *found;
      result.vectors = end.vectors;
      result.hidden_states = end.hidden_states;
      result.pooling = end.pooled.pooling;
      result.normalize = end.pooled.normalize;
      result.masked_lm = end.masked_lm;
      if (end.pooled.pooling != Pooling::none && result.mask.source.input.empty()) result.mask.source = end.pooled.mask;
      claim(result);
      std::string wrong = used_outside(result);
      if (wrong.empty()) wrong = attention_outside(result);
      if (wrong.empty()) return result;
      if (why.empty()) why = std::move(wrong);
    }
    if (why.empty()) why = "its last hidden states are no output of a node";
    return fail(first_at_rows_.empty() ? why : why + ", since " + first_at_rows_);
  }

  // The last values of the graph first. Aliases are left out.
  [[nodiscard]] std::vector<End> ends(std::size_t rows, const RecognizedEncoder& found) {
    std::string hidden_states;
    std::vector<End> normalized, vectors;
    for (const Node& node : graph_.nodes) {
      for (const std::string& output : node.outputs) {
        const SymbolicTensor* tensor = facts_.origin(output) == output ? facts_.tensor(output) : nullptr;
        if (tensor == nullptr || tensor->element_type != ElementType::float32 || tensor->shape.size() < 2 ||
            tensor->shape[0] != facts_.batch || tensor->shape.back().kind != Dimension::Kind::fixed) {
          continue;
        }
        if (tensor->shape.size() == 3) {
          std::string why;
          const bool is_last = hidden_states.empty() && single_computed(*tensor->expression) != nullptr &&
                               tensor->shape == facts_.rows_shape(facts_.columns_of(rows)) &&
                               facts_.rows_of(*tensor, why) == rows;
          if (is_last) hidden_states = output;
          continue;
        }
        const auto pooled = tensor->shape.size() == 2 ? pooled_vectors_of(tensor->expression, facts_) : std::nullopt;
        const auto end = pooled ? end_of(output, *pooled, rows, found) : std::nullopt;
        if (end) (pooled->normalize ? normalized : vectors).push_back(*end);
      }
    }
    std::vector<End> all = std::move(normalized);
    all.insert(all.end(), vectors.begin(), vectors.end());
    for (End& end : all) end.hidden_states = hidden_states;
    if (!hidden_states.empty()) all.push_back({{}, hidden_states, {}, {}});
    return all;
  }

  [[nodiscard]] std::optional<End> end_of(const std::string& output, const PooledVectors& pooled, std::size_t rows,
                                          const RecognizedEncoder& found) const {
    End end{output, {}, pooled, {}};
    std::size_t of = pooled.rows;
    if (pooled.pooling == Pooling::splade) {
      end.masked_lm = masked_lm_of(of, rows);
      if (!end.masked_lm) return std::nullopt;
      end.masked_lm->has_second_log = pooled.has_second_log;
      if (pooled.logit_bias != nullptr) {
        RecognizedLinear& decoder = end.masked_lm->decoder;
        if (decoder.bias != nullptr) return std::nullopt;
        decoder.bias = pooled.logit_bias;
      }
      of = rows;
    }
    if (of != rows) return std::nullopt;
    // Without a mask in attention, all tokens are attended, and are unmasked.
    const bool needs_mask = pooled.pooling != Pooling::cls;
    if (needs_mask && (pooled.mask != found.mask.source || found.mask.from_front)) return std::nullopt;
    return end;
  }

  // decoder(norm(activation(transform(rows)))).
  [[nodiscard]] std::optional<RecognizedMaskedLm> masked_lm_of(std::size_t logits, std::size_t rows) const {
    const auto* decoder = facts_.as<Projection>(logits);
    if (decoder == nullptr) return std::nullopt;
    RecognizedMaskedLm head;
    head.decoder = decoder->linear;
    const auto* stream = std::get_if<StreamInput>(&decoder->input);
    const auto* norm = stream == nullptr ? nullptr : facts_.as<NormalizedRows>(stream->of);
    const auto* activated = norm == nullptr ? nullptr : facts_.as<ActivatedRows>(norm->of);
    const IntermediateInput* input = nullptr;
    if (activated != nullptr) {
      head.norm = norm->norm;
      input = &activated->input;
    } else {
      input = std::get_if<IntermediateInput>(&decoder->input);
    }
    if (input == nullptr || input->multiplied || input->activated.first != 0) return std::nullopt;
    const Projection& transform = *facts_.as<Projection>(input->activated.of);
    const auto* from = std::get_if<StreamInput>(&transform.input);
    if (from == nullptr || from->of != rows || transform.linear.columns != input->columns) return std::nullopt;
    head.transform = transform.linear;
    head.activation = input->activation;
    return head;
  }

  void claim(RecognizedEncoder& found) const {
    std::vector<std::string> open{found.vectors, found.hidden_states};
    std::set<std::size_t> claimed;
    while (!open.empty()) {
      const auto maker = maker_.find(open.back());
      open.pop_back();
      if (maker == maker_.end() || !claimed.insert(maker->second).second) continue;
      const Node& node = graph_.nodes[maker->second];
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
    found.nodes.assign(claimed.begin(), claimed.end());
  }

  // Only the vectors and the hidden states may be used outside; returns an error for any other value.
  std::string used_outside(RecognizedEncoder& found) const {
    const std::set<std::size_t> claimed(found.nodes.begin(), found.nodes.end());
    std::set<std::string> used(graph_.outputs.begin(), graph_.outputs.end());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!claimed.contains(i)) used.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    }
    for (const std::size_t index : claimed) {
      for (const std::string& output : graph_.nodes[index].outputs) {
        if (output.empty() || !used.contains(output) || output == found.vectors || output == found.hidden_states)
          continue;
        return named(graph_.nodes[index]) + " is inside the encoder and is used outside of it";
      }
    }
    if (!used.contains(found.hidden_states)) found.hidden_states.clear();
    if (!used.contains(found.vectors)) {
      found.vectors.clear();
      found.pooling = Pooling::none;
      found.normalize = false;
    }
    return found.hidden_states.empty() && found.vectors.empty() ? "nothing of the encoder is used" : std::string();
  }

  // Layers that were not understood after those that were: the encoder would be divided.
  std::string attention_outside(const RecognizedEncoder& found) const {
    const std::set<std::size_t> claimed(found.nodes.begin(), found.nodes.end());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool is_attention = node.type == "Attention" || node.type == "MultiHeadAttention" ||
                                (node.type == "Softmax" && facts_.unknown(node.outputs.front()) != nullptr);
      if (is_attention && !claimed.contains(i) && comes_from(node, claimed))
        return "recognition ends in layer " + std::to_string(found.layers.size() + 1);
    }
    return {};
  }

  [[nodiscard]] bool comes_from(const Node& node, const std::set<std::size_t>& claimed) const {
    std::vector<std::string> open = node.inputs;
    std::set<std::size_t> seen;
    while (!open.empty()) {
      const auto maker = maker_.find(open.back());
      open.pop_back();
      if (maker == maker_.end() || !seen.insert(maker->second).second) continue;
      if (claimed.contains(maker->second)) return true;
      const Node& before = graph_.nodes[maker->second];
      open.insert(open.end(), before.inputs.begin(), before.inputs.end());
    }
    return false;
  }

  const Graph& graph_;
  KnownFacts facts_;
  std::string& reason_;
  std::map<std::string, std::size_t, std::less<>> maker_;
  std::string first_, first_at_rows_;
};

}  // namespace

std::optional<RecognizedEncoder> recognize(const Graph& graph, std::string& reason) {
  Recognizer first(graph, reason);
  std::optional<RecognizedEncoder> found = first.run();
  if (!first.knew_ids_too_late()) return found;
  return Recognizer(graph, reason, first.facts().input_ids, first.facts().vocabulary_size).run();
}

}  // namespace gpux_cpu::encoder
