#include "recognizer/recognizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

/// Where a graph can be cut behind its encoder.
struct End {
  std::string vectors, hidden;
  Pooling pooling = Pooling::none;
  bool normalize = false;
};

class Recognizer {
 public:
  /// The ids and how many there are, where they are known.
  Recognizer(const Graph& graph, std::string& reason, std::string ids = {}, std::size_t vocabulary = 0)
      : graph_(graph), reading_(graph), reason_(reason) {
    reading_.ids = std::move(ids);
    reading_.vocabulary = vocabulary;
  }

  std::optional<Found> run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& output : graph_.nodes[i].outputs) maker_[output] = i;
      if (!graph_.nodes[i].outputs.empty()) read(graph_.nodes[i]);
    }
    return conclude();
  }

  /// Masks were made of the ids ahead of the embeddings, which tell that they are the ids.
  [[nodiscard]] bool knew_ids_too_late() const { return reading_.masks_before_ids.contains(reading_.ids); }

  [[nodiscard]] const Reading& reading() const noexcept { return reading_; }

 private:
  void read(const Node& node) {
    const std::string& output = node.outputs.front();
    if (hands_on(node)) {
      reading_.is_called(node.inputs[0], output);
      return;
    }
    if (std::vector<Meaning> parts = read_split(node, reading_); !parts.empty()) {
      for (std::size_t i = 0; i < parts.size(); ++i) reading_.is(node.outputs[i], std::move(parts[i]));
      return;
    }
    Meaning meaning = meaning_of(node);
    if (auto* unknown = std::get_if<Unknown>(&meaning)) explain(node, *unknown);
    reading_.is(output, std::move(meaning));
  }

  // A node whose output is its input.
  [[nodiscard]] bool hands_on(const Node& node) const {
    if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return false;
    if (node.type == "Identity") return true;
    if (node.type == "Dropout") {
      // In training it would not.
      const bool trains = node.inputs.size() > 2 && !node.inputs[2].empty() && reading_.scalar(node.inputs[2]) != 0.0;
      return !trains;
    }
    constexpr std::int64_t float32 = 1;
    const Meaning* before = node.type == "Cast" ? reading_.find(node.inputs[0]) : nullptr;
    const bool is_rows = before != nullptr && !std::holds_alternative<Unknown>(*before) &&
                         !std::holds_alternative<Field>(*before) && !std::holds_alternative<SharesAreNaN>(*before);
    return is_rows && integer(node, "to", 0) == float32;
  }

  Meaning meaning_of(const Node& node) {
    if (node.type == "Shape") return shape(node);
    Unknown why;
    const auto tried = [&](Meaning meaning) -> std::optional<Meaning> {
      const auto* unknown = std::get_if<Unknown>(&meaning);
      if (unknown == nullptr) return meaning;
      if (why.why.empty()) why = *unknown;
      return std::nullopt;
    };
    if (auto found = tried(read_norm(node, reading_, found_))) return *found;
    if (auto found = tried(read_pooling(node, reading_))) return *found;
    if (const auto known = field(node)) return *known;
    if (auto found = tried(read_layout(node, reading_))) return *found;
    if (auto found = tried(read_attention(node, reading_))) return *found;
    if (auto found = tried(read_attention_node(node, reading_))) return *found;
    if (auto found = tried(read_rows(node, reading_))) return *found;
    return why;
  }

  std::optional<Field> field(const Node& node) const {
    std::vector<const Field*> inputs;
    for (const std::string& input : node.inputs) {
      inputs.push_back(input.empty() ? nullptr : reading_.as<Field>(input));
      if (!input.empty() && inputs.back() == nullptr) return std::nullopt;
    }
    return field_of(node, inputs);
  }

  Meaning shape(const Node& node) const {
    const auto whole = reading_.shape(node.inputs[0]);
    if (!whole) return Unknown{};
    const auto rank = static_cast<std::int64_t>(whole->size());
    const auto bounded = [rank](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t start = bounded(integer(node, "start", 0)), end = bounded(integer(node, "end", rank));
    return field_of(Shape(whole->begin() + start, whole->begin() + std::max(start, end)));
  }

  // Why nothing is known: for what was not known before, or for what this node does to rows.
  void explain(const Node& node, Unknown& unknown) {
    const auto origin = std::ranges::find_if(node.inputs, [&](const std::string& input) {
      const auto* before = reading_.as<Unknown>(input);
      return before != nullptr && !before->why.empty();
    });
    const bool touches_rows = std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const Meaning* before = reading_.find(input);
      return before != nullptr && before->index() > Meaning(Field{}).index();
    });
    if (origin != node.inputs.end()) {
      unknown = *reading_.as<Unknown>(*origin);
    } else if (unknown.why.empty()) {
      unknown.why = named(node) + " is not understood";
    }
    if (touches_rows && first_at_rows_.empty()) first_at_rows_ = unknown.why;
    if (first_.empty() || node.type == "LayerNormalization") first_ = unknown.why;
  }

  std::optional<Found> fail(std::string why) const {
    reason_ = std::move(why);
    return std::nullopt;
  }

  std::optional<Found> conclude() {
    if (found_.embeddings.words.rows == nullptr) {
      return fail("there are no embeddings of words and positions with a norm behind them" +
                  (first_.empty() ? std::string() : ": " + first_));
    }
    if (found_.layers.empty() || found_.layers.back().down_projection.weights == nullptr) {
      return fail("understanding ends in layer " + std::to_string(found_.layers.empty() ? 1 : found_.layers.size()) +
                  ": " + (first_at_rows_.empty() ? "the graph ends" : first_at_rows_));
    }
    if (const MaskSource& mask = found_.mask.source; !mask.input.empty() && !mask.masked_id) {
      // Their values are others than 0 and 1.
      if (mask.input == found_.embeddings.ids)
        return fail("the mask is made of the ids in a way that is not understood");
      if (mask.input == found_.embeddings.types) return fail("the mask is made of the tokens' types");
    }
    std::string why;
    for (const End& end : ends()) {
      Found found = found_;
      found.vectors = end.vectors;
      found.hidden = end.hidden;
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

  // The furthest first. Of values that are the same the first is taken.
  [[nodiscard]] std::vector<End> ends() const {
    const std::size_t last = 2 * found_.layers.size();
    End behind_rows;
    std::vector<End> normalized, vectors;
    for (const Node& node : graph_.nodes) {
      for (const std::string& output : node.outputs) {
        if (reading_.origin(output) != output) continue;
        if (const auto* hidden = reading_.as<Hidden>(output);
            hidden != nullptr && hidden->index == last && hidden->order == "bsw" && behind_rows.hidden.empty()) {
          behind_rows.hidden = output;
        }
        const auto* pooled = reading_.as<Pooled>(output);
        if (pooled == nullptr || pooled->order != "bw" || pooled->hidden != last) continue;
        const bool is_mean = pooled->pooling == Pooling::mean;
        if (is_mean && (pooled->mask != found_.mask.source || found_.mask.from_front)) continue;
        if (pooled->state == Pooled::State::normalized) normalized.push_back({output, {}, pooled->pooling, true});
        if (pooled->state == Pooled::State::vector) vectors.push_back({output, {}, pooled->pooling, false});
      }
    }
    std::vector<End> all = std::move(normalized);
    all.insert(all.end(), vectors.begin(), vectors.end());
    for (End& end : all) end.hidden = behind_rows.hidden;
    if (!behind_rows.hidden.empty()) all.push_back(behind_rows);
    return all;
  }

  void claim(Found& found) const {
    std::vector<std::string> open{found.vectors, found.hidden};
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

  // Nothing but the vectors and the hidden states may be; says what is.
  std::string used_outside(Found& found) const {
    const std::set<std::size_t> claimed(found.nodes.begin(), found.nodes.end());
    std::set<std::string> used(graph_.outputs.begin(), graph_.outputs.end());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!claimed.contains(i)) used.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    }
    for (const std::size_t index : claimed) {
      for (const std::string& output : graph_.nodes[index].outputs) {
        if (output.empty() || !used.contains(output) || output == found.vectors || output == found.hidden) continue;
        return named(graph_.nodes[index]) + " is in the midst of the encoder and used outside of it";
      }
    }
    if (!used.contains(found.hidden)) found.hidden.clear();
    if (!used.contains(found.vectors)) {
      found.vectors.clear();
      found.pooling = Pooling::none;
      found.normalize = false;
    }
    return found.hidden.empty() && found.vectors.empty() ? "nothing of the encoder is used" : std::string();
  }

  const Graph& graph_;
  Reading reading_;
  std::string& reason_;
  std::map<std::string, std::size_t, std::less<>> maker_;
  std::string first_, first_at_rows_;
  Found found_;
};

}  // namespace

std::optional<Found> recognize(const Graph& graph, std::string& reason) {
  Recognizer first(graph, reason);
  std::optional<Found> found = first.run();
  if (!first.knew_ids_too_late()) return found;
  return Recognizer(graph, reason, first.reading().ids, first.reading().vocabulary).run();
}

}  // namespace gpux_encoder
