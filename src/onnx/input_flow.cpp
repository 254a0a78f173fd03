#include "onnx/input_flow.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "onnx/limits.h"
#include "onnx/message.h"
#include "onnx/node_text.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/text.h"
#include "onnx/value_type.h"

namespace gpux::onnx {
namespace {

constexpr std::size_t max_visited_nodes = std::size_t{1} << 18;

/// What a value follows from.
struct Flow {
  bool content = false;                     ///< what an input holds
  bool sizes = false;                       ///< a size of an input that is free
  const std::string* by_content = nullptr;  ///< such an operator before it
  const std::string* foreign = nullptr;

  bool operator==(const Flow&) const = default;

  void join(const Flow& other) {
    content |= other.content;
    sizes |= other.sizes;
    if (by_content == nullptr) by_content = other.by_content;
    if (foreign == nullptr) foreign = other.foreign;
  }
};

/// An operator whose result has another size, or is computed another number of times, for other contents of the inputs
/// at these places: a bit each.
struct ContentRow {
  std::string_view name;
  std::uint32_t places;
};

constexpr std::uint32_t first = 1U << 0, second = 1U << 1, third = 1U << 2, fourth = 1U << 3, fifth = 1U << 4;

// Versions of an operator differ: a place counts where any of them has sizes there.
constexpr std::array<ContentRow, 45> content_rows{{{"AffineGrid", second},
                                                   {"BlackmanWindow", first},
                                                   {"CenterCropPad", second},
                                                   {"Col2Im", second | third},
                                                   {"Compress", second},
                                                   {"ConstantOfShape", first},
                                                   {"DFT", second},
                                                   {"Expand", second},
                                                   {"HammingWindow", first},
                                                   {"HannWindow", first},
                                                   {"If", first},
                                                   {"ImageDecoder", first},
                                                   {"Loop", first | second},
                                                   {"MaxUnpool", third},
                                                   {"MelWeightMatrix", first | second},
                                                   {"NonMaxSuppression", first | second | third | fourth | fifth},
                                                   {"NonZero", first},
                                                   {"OneHot", second},
                                                   {"Pad", second | fourth},
                                                   {"Range", first | second | third},
                                                   {"ReduceL1", second},
                                                   {"ReduceL2", second},
                                                   {"ReduceLogSum", second},
                                                   {"ReduceLogSumExp", second},
                                                   {"ReduceMax", second},
                                                   {"ReduceMean", second},
                                                   {"ReduceMin", second},
                                                   {"ReduceProd", second},
                                                   {"ReduceSum", second},
                                                   {"ReduceSumSquare", second},
                                                   {"RegexFullMatch", first},
                                                   {"Reshape", second},
                                                   {"Resize", second | third | fourth},
                                                   {"STFT", second | fourth},
                                                   {"SequenceAt", second},
                                                   {"Slice", second | third | fourth | fifth},
                                                   {"Split", second},
                                                   {"SplitToSequence", second},
                                                   {"Squeeze", second},
                                                   {"StringSplit", first},
                                                   {"Tile", second | third},
                                                   {"TopK", second},
                                                   {"Unique", first},
                                                   {"Unsqueeze", second},
                                                   {"Upsample", second}}};

constexpr std::array<ContentRow, 6> contributed_rows{{{"DynamicTimeWarping", first},
                                                      {"ExpandDims", second},
                                                      {"Pad", second | fourth},
                                                      {"RemovePadding", first | second},
                                                      {"Tokenizer", first},
                                                      {"Unique", first}}};

constexpr std::array<std::string_view, 8> known_domains{"",
                                                        "ai.onnx",
                                                        "ai.onnx.ml",
                                                        "ai.onnx.preview.training",
                                                        "com.microsoft",
                                                        "com.microsoft.nchwc",
                                                        "com.ms.internal.nhwc",
                                                        "ai.onnx.training"};

std::uint32_t content_places(const NodeText& node) {
  const auto in = [&](std::span<const ContentRow> rows) {
    const auto found = std::ranges::find(rows, node.type, &ContentRow::name);
    return found == rows.end() ? 0 : found->places;
  };
  if (is_standard(node)) {
    // Words that are left out make the list shorter.
    if (node.type == "StringNormalizer") return attribute_of(node, "stopwords").next() ? first : 0;
    return in(content_rows);
  }
  return node.domain == "com.microsoft" ? in(contributed_rows) : 0;
}

std::string full_name(const NodeText& node) {
  return is_standard(node) ? to_utf8(node.type) : fmt::format("{}::{}", to_utf8(node.domain), to_utf8(node.type));
}

std::string function_key(std::string_view domain, std::string_view name) {
  return (domain == "ai.onnx" ? std::string() : std::string(domain)) + '\n' + std::string(name);
}

/// The values of a graph, and those of the graph around it.
struct Scope {
  std::unordered_map<std::string_view, Flow> values;
  const Scope* outer = nullptr;

  [[nodiscard]] Flow of(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (const auto found = scope->values.find(name); found != scope->values.end()) return found->second;
    }
    return {};  // a constant
  }
};

using Flows = std::vector<Flow>;

Flow joined(const Flows& flows) {
  Flow all;
  for (const Flow& flow : flows) all.join(flow);
  return all;
}

Flow at(const Flows& flows, std::size_t place) {
  return place < flows.size() ? flows[place] : Flow();
}

class Walk {
 public:
  InputFlow of_model(std::string_view content) {
    Message model(content);
    std::string_view graph;
    while (model.next()) {
      if (model.field() == schema::model::ir_version) ir_version_ = model.integer();
      if (model.field() == schema::model::graph) graph = model.bytes();
      if (model.field() == schema::model::functions) add_function(model.message());
    }
    Scope scope;
    const std::unordered_set<std::string_view> inputs = add_inputs(Message(graph), scope);
    walk_nodes(Message(graph), scope, 0);
    InputFlow result;
    for (Message walked(graph); walked.next();) {
      if (walked.field() != schema::graph::output) continue;
      const std::string_view name = name_of_value(walked.message());
      if (inputs.contains(name)) continue;
      const Flow flow = scope.of(name);
      result.reaches_outputs |= flow.content || flow.sizes;
      if (result.content_operator.empty() && flow.by_content != nullptr) result.content_operator = *flow.by_content;
      if (result.foreign_operator.empty() && flow.foreign != nullptr) result.foreign_operator = *flow.foreign;
    }
    if (visited_ > max_visited_nodes) {
      result.reaches_outputs = true;
      result.content_operator = fmt::format("a graph of more than {} nodes", max_visited_nodes);
    }
    return result;
  }

 private:
  void add_function(Message function) {
    const Message whole = function;
    std::string_view name, domain;
    while (function.next()) {
      if (function.field() == schema::function::name) name = function.bytes();
      if (function.field() == schema::function::domain) domain = function.bytes();
    }
    functions_.insert_or_assign(function_key(domain, name), whole);
  }

  // Returns their names.
  std::unordered_set<std::string_view> add_inputs(Message graph, Scope& scope) const {
    std::unordered_set<std::string_view> constants, inputs;
    for (Message walked = graph; walked.next();) {
      if (walked.field() == schema::graph::initializer) constants.insert(tensor_name(walked.message()));
    }
    const bool are_overridable = ir_version_ >= first_ir_with_overridable_initializers;
    while (graph.next()) {
      if (graph.field() != schema::graph::input) continue;
      const std::string_view name = name_of_value(graph.message());
      inputs.insert(name);
      if (constants.contains(name) && !are_overridable) continue;
      scope.values.insert_or_assign(name, Flow{.content = true, .sizes = has_free_size(graph.message())});
    }
    return inputs;
  }

  static std::string_view tensor_name(Message tensor) {
    while (tensor.next()) {
      if (tensor.field() == schema::tensor::name) return tensor.bytes();
    }
    return {};
  }

  static bool has_free_size(Message input) {
    while (input.next()) {
      if (input.field() != schema::value_info::type) continue;
      const ValueType type = read_type(input.message());
      return type.kind != ValueKind::tensor || !type.dimensions ||
             std::ranges::any_of(*type.dimensions, [](const Dimension& dimension) { return !dimension.size; });
    }
    return true;
  }

  void walk_nodes(Message graph, Scope& scope, unsigned depth) {
    for_each_node(graph, [&](const NodeText& node) { set_outputs(node, flows_of(node, scope, depth), scope); });
  }

  static void set_outputs(const NodeText& node, const Flows& flows, Scope& scope) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) scope.values.insert_or_assign(node.outputs[i], at(flows, i));
    }
  }

  // Of the node's outputs.
  Flows flows_of(const NodeText& node, const Scope& scope, unsigned depth) {
    if (++visited_ > max_visited_nodes || depth > deepest_nesting) return {};
    Flows inputs;
    for (const std::string_view input : node.inputs) inputs.push_back(scope.of(input));
    const std::uint32_t places = content_places(node);
    const std::string* by_content = nullptr;
    for (std::size_t i = 0; i < inputs.size() && i < 32; ++i) {
      if ((places >> i & 1U) != 0 && inputs[i].content) by_content = name_of(node);
    }
    Flows outputs = results(node, inputs, scope, depth);
    for (Flow& output : outputs) {
      if (output.by_content == nullptr) output.by_content = by_content;
    }
    return outputs;
  }

  Flows results(const NodeText& node, const Flows& inputs, const Scope& scope, unsigned depth) {
    if (const auto found = functions_.find(function_key(node.domain, node.type)); found != functions_.end()) {
      return of_function(found->second, inputs, depth);
    }
    Flow flow = joined(inputs);
    if (is_standard(node) && (node.type == "Shape" || node.type == "Size")) {
      flow.content = flow.by_content != nullptr;
    } else if (is_standard(node) && node.type == "TfIdfVectorizer") {
      flow.by_content = nullptr;  // counts what is in a row, whatever fills it up
    } else if (std::ranges::find(known_domains, node.domain) == known_domains.end() && flow.content) {
      flow.foreign = name_of(node);
    }
    Flows outputs(node.outputs.size(), flow);
    for_each_subgraph(node, [&](const Message& graph) {
      const Flows of_body = of_subgraph(node, graph, inputs, scope, depth);
      for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].join(at(of_body, i));
    });
    return outputs;
  }

  // The outputs of a node with such a body: what it gives goes into it again until nothing changes.
  Flows of_subgraph(const NodeText& node, const Message& graph, const Flows& inputs, const Scope& scope,
                    unsigned depth) {
    const bool is_loop = node.type == "Loop", is_branch = node.type == "If";
    // The first output of a Loop's body says whether it goes on.
    const std::size_t leading = is_loop ? 1 : 0;
    Flows given = inputs;
    for (;;) {
      Flows made = of_body(graph, given, scope, depth);
      const Flows before = given;
      for (std::size_t i = leading; i < made.size() && i + leading < given.size(); ++i)
        given[i + leading].join(made[i]);
      if (is_loop && at(made, 0).content) {
        for (Flow& flow : made) {
          if (flow.by_content == nullptr) flow.by_content = name_of(node);
        }
      }
      if (is_branch || given == before || visited_ > max_visited_nodes) {
        made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(std::min(leading, made.size())));
        return made;
      }
    }
  }

  Flows of_body(const Message& graph, const Flows& inputs, const Scope& outer, unsigned depth) {
    Scope scope{.values = {}, .outer = &outer};
    std::size_t place = 0;
    for (Message walked = graph; walked.next();) {
      if (walked.field() == schema::graph::initializer) {
        scope.values.insert_or_assign(tensor_name(walked.message()), Flow());
      }
    }
    for (Message walked = graph; walked.next();) {
      if (walked.field() != schema::graph::input) continue;
      scope.values.insert_or_assign(name_of_value(walked.message()), at(inputs, place++));
    }
    walk_nodes(graph, scope, depth + 1);
    Flows outputs;
    for (Message walked = graph; walked.next();) {
      if (walked.field() == schema::graph::output) outputs.push_back(scope.of(name_of_value(walked.message())));
    }
    return outputs;
  }

  Flows of_function(const Message& function, const Flows& inputs, unsigned depth) {
    Scope scope;
    std::size_t place = 0;
    for (Message walked = function; walked.next();) {
      if (walked.field() == schema::function::input) scope.values.insert_or_assign(walked.bytes(), at(inputs, place++));
    }
    Flows outputs;
    for (Message walked = function; walked.next();) {
      if (walked.field() != schema::function::node) continue;
      const NodeText node = read_node(walked.raw(), walked.message());
      set_outputs(node, flows_of(node, scope, depth + 1), scope);
    }
    for (Message walked = function; walked.next();) {
      if (walked.field() == schema::function::output) outputs.push_back(scope.of(walked.bytes()));
    }
    return outputs;
  }

  // The same address for the same operator.
  const std::string* name_of(const NodeText& node) { return &*names_.insert(full_name(node)).first; }

  std::int64_t ir_version_ = 0;
  std::size_t visited_ = 0;
  std::unordered_map<std::string, Message> functions_;
  std::unordered_set<std::string> names_;  // which do not move
};

}  // namespace

InputFlow input_flow(std::string_view content, const std::filesystem::path& path) {
  try {
    return Walk().of_model(content);
  } catch (const MalformedMessage& reason) {
    throw damaged_model(path, reason, content);
  }
}

InputFlow input_flow(const std::filesystem::path& path) {
  const MappedFile file(path);
  return input_flow(file.text(), path);
}

}  // namespace gpux::onnx
