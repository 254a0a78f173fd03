#include "recognizer/recognizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

/// The outputs of an encoder at which a graph can be divided.
struct End {
  std::string vectors, hidden_states;
  Pooling pooling = Pooling::none;
  bool normalize = false;
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
    if (std::vector<Fact> parts = derive_split(node, facts_); !parts.empty()) {
      for (std::size_t i = 0; i < parts.size(); ++i) facts_.set(node.outputs[i], std::move(parts[i]));
      return;
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
    constexpr std::int64_t float32 = 1;
    const Fact* before = node.type == "Cast" ? facts_.find(node.inputs[0]) : nullptr;
    const bool is_rows = before != nullptr && !std::holds_alternative<Unknown>(*before) &&
                         !std::holds_alternative<SymbolicTensor>(*before) &&
                         !std::holds_alternative<ProbabilitiesAreNaN>(*before);
    return is_rows && integer(node, "to", 0) == float32;
  }

  Fact derive(const Node& node) {
    if (node.type == "Shape") return shape(node);
    Unknown why;
    const auto tried = [&](Fact fact) -> std::optional<Fact> {
      const auto* unknown = std::get_if<Unknown>(&fact);
      if (unknown == nullptr) return fact;
      if (why.why.empty()) why = *unknown;
      return std::nullopt;
    };
    if (auto found = tried(derive_layer_norm(node, facts_, found_))) return *found;
    if (auto found = tried(derive_pooling(node, facts_))) return *found;
    if (const auto known = tensor(node)) return *known;
    if (auto found = tried(derive_layout(node, facts_))) return *found;
    if (auto found = tried(derive_attention(node, facts_))) return *found;
    if (auto found = tried(derive_attention_node(node, facts_))) return *found;
    if (auto found = tried(derive_projection(node, facts_))) return *found;
    return why;
  }

  std::optional<SymbolicTensor> tensor(const Node& node) const {
    std::vector<const SymbolicTensor*> inputs;
    for (const std::string& input : node.inputs) {
      inputs.push_back(input.empty() ? nullptr : facts_.as<SymbolicTensor>(input));
      if (!input.empty() && inputs.back() == nullptr) return std::nullopt;
    }
    return symbolic_tensor_of(node, inputs);
  }

  Fact shape(const Node& node) const {
    const auto whole = facts_.shape(node.inputs[0]);
    if (!whole) return Unknown{};
    const auto rank = static_cast<std::int64_t>(whole->size());
    const auto bounded = [rank](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t start = bounded(integer(node, "start", 0)), end = bounded(integer(node, "end", rank));
    return symbolic_tensor_of(Shape(whole->begin() + start, whole->begin() + std::max(start, end)));
  }

  // The reason for an Unknown: that of its input, or this node.
  void explain(const Node& node, Unknown& unknown) {
    const auto origin = std::ranges::find_if(node.inputs, [&](const std::string& input) {
      const auto* before = facts_.as<Unknown>(input);
      return before != nullptr && !before->why.empty();
    });
    const bool touches_rows = std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const Fact* before = facts_.find(input);
      return before != nullptr && before->index() > Fact(SymbolicTensor{}).index();
    });
    if (origin != node.inputs.end()) {
      unknown = *facts_.as<Unknown>(*origin);
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

  std::optional<RecognizedEncoder> conclude() {
    if (found_.embeddings.word_embeddings.rows == nullptr) {
      return fail("there are no embeddings of words and positions followed by a layer normalization" +
                  (first_.empty() ? std::string() : ": " + first_));
    }
    if (found_.layers.empty() || found_.layers.back().down_projection.weights == nullptr) {
      return fail("recognition ends in layer " + std::to_string(found_.layers.empty() ? 1 : found_.layers.size()) +
                  ": " + (first_at_rows_.empty() ? "the graph ends" : first_at_rows_));
    }
    if (const MaskSource& mask = found_.mask.source; !mask.input.empty() && !mask.masked_id) {
      // Their values are not 0 and 1.
      if (mask.input == found_.embeddings.input_ids)
        return fail("the mask depends on input_ids in a way that is not understood");
      if (mask.input == found_.embeddings.token_type_ids) return fail("the mask depends on token_type_ids");
    }
    std::string why;
    for (const End& end : ends()) {
      RecognizedEncoder found = found_;
      found.vectors = end.vectors;
      found.hidden_states = end.hidden_states;
      found.pooling = end.pooling;
      found.normalize = end.normalize;
      claim(found);
      if (std::string wrong = used_outside(found); !wrong.empty()) {
        if (why.empty()) why = std::move(wrong);
        continue;
      }
      return found;
    }
    return fail(first_at_rows_.empty() ? why : why + ", since " + first_at_rows_);
  }

  // The last values of the graph first. Aliases are left out.
  [[nodiscard]] std::vector<End> ends() const {
    const std::size_t last = 2 * found_.layers.size();
    End behind_rows;
    std::vector<End> normalized, vectors;
    for (const Node& node : graph_.nodes) {
      for (const std::string& output : node.outputs) {
        if (facts_.origin(output) != output) continue;
        if (const auto* hidden = facts_.as<HiddenStates>(output); hidden != nullptr && hidden->index == last &&
                                                                  hidden->order == axis_order::batch_sequence_hidden &&
                                                                  behind_rows.hidden_states.empty()) {
          behind_rows.hidden_states = output;
        }
        const auto* pooled = facts_.as<Pooled>(output);
        if (pooled == nullptr || pooled->order != axis_order::batch_hidden || pooled->hidden_index != last) continue;
        const bool is_mean = pooled->pooling == Pooling::mean;
        if (is_mean && (pooled->mask != found_.mask.source || found_.mask.from_front)) continue;
        if (pooled->state == Pooled::State::normalized) normalized.push_back({output, {}, pooled->pooling, true});
        if (pooled->state == Pooled::State::vector) vectors.push_back({output, {}, pooled->pooling, false});
      }
    }
    std::vector<End> all = std::move(normalized);
    all.insert(all.end(), vectors.begin(), vectors.end());
    for (End& end : all) end.hidden_states = behind_rows.hidden_states;
    if (!behind_rows.hidden_states.empty()) all.push_back(behind_rows);
    return all;
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

  const Graph& graph_;
  KnownFacts facts_;
  std::string& reason_;
  std::map<std::string, std::size_t, std::less<>> maker_;
  std::string first_, first_at_rows_;
  RecognizedEncoder found_;
};

}  // namespace

std::optional<RecognizedEncoder> recognize(const Graph& graph, std::string& reason) {
  Recognizer first(graph, reason);
  std::optional<RecognizedEncoder> found = first.run();
  if (!first.knew_ids_too_late()) return found;
  return Recognizer(graph, reason, first.facts().input_ids, first.facts().vocabulary_size).run();
}

}  // namespace gpux_encoder
