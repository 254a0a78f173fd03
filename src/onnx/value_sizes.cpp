#include "onnx/value_sizes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "gpux/model_info.h"
#include "onnx/tensor_header.h"
#include "onnx/value_type.h"

namespace gpux::onnx {
namespace {

using Name = std::string_view;
using MaybeSizes = std::optional<Sizes>;

bool is_one_of(Name type, std::span<const Name> types) {
  return std::ranges::find(types, type) != types.end();
}

// Whose result has the sizes of its first input.
constexpr std::array<Name, 24> unary_types{{"Abs",
                                            "Cast",
                                            "Clip",
                                            "Cos",
                                            "CumSum",
                                            "Dropout",
                                            "Elu",
                                            "Erf",
                                            "Exp",
                                            "Gelu",
                                            "HardSwish",
                                            "Identity",
                                            "LayerNormalization",
                                            "Log",
                                            "Neg",
                                            "Not",
                                            "Reciprocal",
                                            "Relu",
                                            "Sigmoid",
                                            "SimplifiedLayerNormalization",
                                            "Sin",
                                            "Softmax",
                                            "Sqrt",
                                            "Tanh"}};

constexpr std::array<Name, 16> elementwise_types{{"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
                                                  "LessOrEqual", "Max", "Min", "Mul", "Or", "Pow", "Sub", "Where",
                                                  "Xor"}};

// Domain com.microsoft.
constexpr std::array<Name, 7> contributed_unary_types{{"BiasGelu", "FastGelu", "Gelu", "QuickGelu", "RotaryEmbedding",
                                                       "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}};

class Inference {
 public:
  KnownValues run(Message graph, std::span<const NodeText> nodes) {
    read_values(graph);
    for (const NodeText& node : nodes) {
      if (node.outputs.empty() || node.outputs.front().empty()) continue;
      read_constant(node);
      read_sizes(node);
      MaybeSizes sizes = result_of(node);
      if (sizes && sizes->size() <= max_rank) known_.sizes.insert_or_assign(node.outputs.front(), *std::move(sizes));
    }
    return std::move(known_);
  }

 private:
  // ------------------------------------------------------------------ what the graph states

  void read_values(Message graph) {
    for (Message field = graph; field.next();) {
      if (field.field() == schema::graph::initializer) add_tensor({}, field.message());
    }
    // An initializer that callers may replace is no constant.
    for (Message field = graph; field.next();) {
      if (field.field() == schema::graph::input) add_input(field.message());
    }
  }

  void add_input(Message input) {
    const Name name = name_of_value(input);
    known_.integers.erase(name);
    known_.sizes.erase(name);
    known_.scalars.erase(name);
    while (input.next()) {
      if (input.field() != schema::value_info::type) continue;
      const ValueType type = read_type(input.message());
      if (type.kind != ValueKind::tensor || !type.dimensions) continue;
      Sizes& sizes = known_.sizes[name];
      for (const Dimension& dimension : *type.dimensions) sizes.push_back(size_of(dimension));
    }
  }

  std::int64_t size_of(const Dimension& dimension) {
    if (dimension.size) return *dimension.size;
    if (dimension.name.empty()) return new_symbol();
    const auto [found, is_new] = named_.emplace(dimension.name, 0);
    if (is_new) found->second = new_symbol();
    return found->second;
  }

  // `name` where the tensor has none of its own.
  void add_tensor(Name name, const Message& tensor) {
    const TensorHeader header = read_tensor_header(tensor);
    if (name.empty()) name = header.name;
    known_.sizes.insert_or_assign(name, header.shape);
    if (header.type == ElementType::float32 && header.raw_data && header.element_count == 1) {
      std::memcpy(&known_.scalars[name], header.raw_data->data(), sizeof(float));
    }
    if (header.type != ElementType::int64 || header.external || header.element_count > max_elements) return;
    Sizes elements;
    if (header.raw_data) {
      elements.resize(header.raw_data->size() / sizeof(std::int64_t));
      if (!elements.empty())
        std::memcpy(elements.data(), header.raw_data->data(), elements.size() * sizeof(std::int64_t));
    } else {
      for (Message field = tensor; field.next();) {
        if (field.field() != schema::tensor::int64_data) continue;
        field.each_integer([&](std::int64_t element) { elements.push_back(element); });
      }
    }
    known_.integers.insert_or_assign(name, std::move(elements));
  }

  void read_constant(const NodeText& node) {
    if (!is_standard(node) || node.type != "Constant") return;
    for (Message attribute = attribute_of(node, "value"); attribute.next();) {
      if (attribute.field() == schema::attribute::t) add_tensor(node.outputs.front(), attribute.message());
    }
    const auto add = [&](const Sizes& elements, Sizes shape) {
      known_.integers.insert_or_assign(node.outputs.front(), elements);
      known_.sizes.insert_or_assign(node.outputs.front(), std::move(shape));
    };
    if (const MaybeSizes list = integers_attribute(node, "value_ints")) {
      add(*list, {static_cast<std::int64_t>(list->size())});
    }
    for (Message attribute = attribute_of(node, "value_int"); attribute.next();) {
      if (attribute.field() == schema::attribute::i) add({attribute.integer()}, {});
    }
  }

  // ------------------------------------------------------------------ the algebra of sizes

  std::int64_t new_symbol() { return --last_symbol_; }

  // Two sizes of which one may be broadcast to the other.
  std::int64_t joined(std::int64_t one, std::int64_t other) {
    if (one == other || other == 1) return one;
    if (one == 1) return other;
    if (one >= 0 && other >= 0) return new_symbol();  // an error when it runs
    if (one >= 0) return one;
    if (other >= 0) return other;
    std::set<std::int64_t> all = parts_of(one);
    all.merge(parts_of(other));
    if (all.size() > max_parts) return new_symbol();
    const auto [found, is_new] = joined_.emplace(all, 0);
    if (is_new) {
      found->second = new_symbol();
      parts_.emplace(found->second, std::move(all));
    }
    return found->second;
  }

  // The symbols that one was joined from.
  [[nodiscard]] std::set<std::int64_t> parts_of(std::int64_t symbol) const {
    const auto found = parts_.find(symbol);
    return found == parts_.end() ? std::set{symbol} : found->second;
  }

  Sizes broadcast(const Sizes& one, const Sizes& other) {
    Sizes result(std::max(one.size(), other.size()), 1);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t from_back = result.size() - i;
      const std::int64_t first = from_back <= one.size() ? one[one.size() - from_back] : 1;
      const std::int64_t second = from_back <= other.size() ? other[other.size() - from_back] : 1;
      result[i] = joined(first, second);
    }
    return result;
  }

  // What remains of a number of elements: a number or one symbol.
  static std::optional<std::int64_t> quotient(Sizes all, const Sizes& known) {
    std::int64_t dividend = 1, divisor = 1;
    for (const std::int64_t size : known) {
      const auto found = std::ranges::find(all, size);
      if (found != all.end()) {
        all.erase(found);
      } else if (size <= 0 || __builtin_mul_overflow(divisor, size, &divisor)) {
        return std::nullopt;
      }
    }
    std::optional<std::int64_t> symbol;
    for (const std::int64_t size : all) {
      if (size < 0) {
        if (symbol) return std::nullopt;
        symbol = size;
      } else if (__builtin_mul_overflow(dividend, size, &dividend)) {
        return std::nullopt;
      }
    }
    if (symbol) return dividend == divisor ? symbol : std::nullopt;
    return dividend % divisor == 0 ? std::optional(dividend / divisor) : std::nullopt;
  }

  // ------------------------------------------------------------------ operators

  [[nodiscard]] const Sizes* sizes_of(const NodeText& node, std::size_t place) const {
    const auto found = known_.sizes.find(input_of(node, place));
    return found == known_.sizes.end() ? nullptr : &found->second;
  }

  [[nodiscard]] const Sizes* integers_of(const NodeText& node, std::size_t place) const {
    const auto found = known_.integers.find(input_of(node, place));
    return found == known_.integers.end() ? nullptr : &found->second;
  }

  static std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank) {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    return axis >= 0 && axis < static_cast<std::int64_t>(rank) ? std::optional(static_cast<std::size_t>(axis))
                                                               : std::nullopt;
  }

  MaybeSizes result_of(const NodeText& node) {
    const Sizes* first = sizes_of(node, 0);
    if (node.domain == "com.microsoft") return result_of_contributed(node, first);
    if (!is_standard(node)) return std::nullopt;
    if (node.type == "Reshape") return reshaped(node, first);
    if (node.type == "Range") return Sizes{size_of_range(node)};
    if (first == nullptr) return std::nullopt;
    if (node.type == "Shape") return Sizes{size_of_shape(node, static_cast<std::int64_t>(first->size()))};
    if (is_one_of(node.type, unary_types)) return *first;
    if (is_one_of(node.type, elementwise_types)) return elementwise(node);
    if (node.type == "MatMul") return multiplied(*first, sizes_of(node, 1));
    if (node.type == "Transpose") return transposed(node, *first);
    if (node.type == "Unsqueeze") return unsqueezed(node, *first);
    if (node.type == "Squeeze") return squeezed(node, *first);
    if (node.type == "Expand") return expanded(node, *first);
    if (node.type == "Concat") return concatenated(node, *first);
    if (node.type == "Slice") return sliced(node, *first);
    if (node.type == "Gather") return gathered(node, *first);
    if (node.type == "ReduceMean" || node.type == "ReduceSum") return reduced(node, *first);
    if (node.type == "Conv") return convolved(node, *first);
    return std::nullopt;
  }

  MaybeSizes result_of_contributed(const NodeText& node, const Sizes* first) {
    if (node.type == "GatherBlockQuantized") {
      const Sizes* indices = sizes_of(node, 1);
      if (indices == nullptr || integer_attribute(node, "gather_axis", 0) != 0) return std::nullopt;
      Sizes result = *indices;
      result.push_back(new_symbol());
      return first != nullptr && first->size() == 2 ? MaybeSizes(std::move(result)) : std::nullopt;
    }
    if (first == nullptr) return std::nullopt;
    if (is_one_of(node.type, contributed_unary_types)) return *first;
    // Without keys of their own, they are part of the first input.
    if (node.type == "GroupQueryAttention" && !input_of(node, 1).empty()) return *first;
    return node.type == "MatMulNBits" ? with_last(*first, integer_attribute(node, "N", 0)) : MaybeSizes();
  }

  static MaybeSizes with_last(Sizes sizes, std::int64_t last) {
    if (sizes.empty() || last <= 0) return std::nullopt;
    sizes.back() = last;
    return sizes;
  }

  // From start to end of the sizes that Shape gives.
  static std::pair<std::int64_t, std::int64_t> bounds_of_shape(const NodeText& node, std::int64_t rank) {
    const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t start = bound(integer_attribute(node, "start", 0));
    return {start, std::max(start, bound(integer_attribute(node, "end", rank)))};
  }

  static std::int64_t size_of_shape(const NodeText& node, std::int64_t rank) {
    const auto [start, end] = bounds_of_shape(node, rank);
    return end - start;
  }

  // Shape, and Cast, Squeeze and Unsqueeze of it.
  void read_sizes(const NodeText& node) {
    if (!is_standard(node)) return;
    const Name result = node.outputs.front();
    if (node.type == "Shape") {
      const Sizes* sizes = sizes_of(node, 0);
      if (sizes == nullptr) return;
      const auto [start, end] = bounds_of_shape(node, static_cast<std::int64_t>(sizes->size()));
      sizes_as_values_[result] = Sizes(sizes->begin() + start, sizes->begin() + end);
    } else if (node.type == "Cast" || node.type == "Squeeze" || node.type == "Unsqueeze") {
      const auto found = sizes_as_values_.find(input_of(node, 0));
      if (found != sizes_as_values_.end()) sizes_as_values_[result] = Sizes(found->second);
    }
  }

  // Range(0, size, 1) has that size.
  std::int64_t size_of_range(const NodeText& node) {
    const Sizes *start = integers_of(node, 0), *step = integers_of(node, 2);
    const auto end = sizes_as_values_.find(input_of(node, 1));
    const bool counts = start != nullptr && *start == Sizes{0} && step != nullptr && *step == Sizes{1};
    return counts && end != sizes_as_values_.end() && end->second.size() == 1 ? end->second.front() : new_symbol();
  }

  MaybeSizes elementwise(const NodeText& node) {
    Sizes result;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Sizes* sizes = sizes_of(node, i);
      if (sizes == nullptr) return std::nullopt;
      result = broadcast(result, *sizes);
    }
    return result;
  }

  MaybeSizes multiplied(const Sizes& one, const Sizes* other) {
    if (other == nullptr || one.size() < 2 || other->size() < 2) return std::nullopt;
    Sizes result = broadcast(Sizes(one.begin(), one.end() - 2), Sizes(other->begin(), other->end() - 2));
    result.push_back(one[one.size() - 2]);
    result.push_back(other->back());
    return result;
  }

  MaybeSizes reshaped(const NodeText& node, const Sizes* input) {
    const Sizes* wanted = integers_of(node, 1);
    if (wanted == nullptr || integer_attribute(node, "allowzero", 0) != 0) return std::nullopt;
    Sizes result = *wanted, known;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] < -1) return std::nullopt;
      if (result[i] == 0) result[i] = input != nullptr && i < input->size() ? (*input)[i] : new_symbol();
      if ((*wanted)[i] != -1) known.push_back(result[i]);
    }
    const auto rest = std::ranges::find(*wanted, -1);
    if (rest == wanted->end()) return result;
    const std::optional<std::int64_t> size = input == nullptr ? std::nullopt : quotient(*input, known);
    result[static_cast<std::size_t>(rest - wanted->begin())] = size ? *size : new_symbol();
    return result;
  }

  static MaybeSizes transposed(const NodeText& node, const Sizes& input) {
    const MaybeSizes order = integers_attribute(node, "perm");
    if (!order || order->size() != input.size()) return std::nullopt;
    Sizes result;
    for (const std::int64_t axis : *order) {
      const auto place = place_of(axis, input.size());
      if (!place) return std::nullopt;
      result.push_back(input[*place]);
    }
    return result;
  }

  MaybeSizes unsqueezed(const NodeText& node, const Sizes& input) const {
    const Sizes* axes = integers_of(node, 1);
    if (axes == nullptr) return std::nullopt;
    Sizes result(input.size() + axes->size(), 0);
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, result.size());
      if (!place || result[*place] == 1) return std::nullopt;
      result[*place] = 1;
    }
    auto next = input.begin();
    for (std::int64_t& size : result) {
      if (size == 0) size = *next++;
    }
    return result;
  }

  MaybeSizes squeezed(const NodeText& node, const Sizes& input) const {
    const Sizes* axes = integers_of(node, 1);
    if (axes == nullptr) return std::nullopt;
    std::set<std::size_t> left_out;
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, input.size());
      if (!place) return std::nullopt;
      left_out.insert(*place);
    }
    Sizes result;
    for (std::size_t i = 0; i < input.size(); ++i) {
      if (!left_out.contains(i)) result.push_back(input[i]);
    }
    return result;
  }

  MaybeSizes expanded(const NodeText& node, const Sizes& input) {
    if (const Sizes* wanted = integers_of(node, 1)) return broadcast(input, *wanted);
    // To as many sizes as the list has: numbers of the input that are not 1 stay.
    const Sizes* length = sizes_of(node, 1);
    if (length == nullptr || length->size() != 1 || length->front() < 0) return std::nullopt;
    if (length->front() > max_elements) return std::nullopt;
    Sizes result(std::max(input.size(), static_cast<std::size_t>(length->front())), 0);
    std::ranges::copy_backward(input, result.end());
    for (std::int64_t& size : result) {
      if (size < 2) size = new_symbol();
    }
    return result;
  }

  MaybeSizes concatenated(const NodeText& node, const Sizes& first) {
    Sizes result = first;
    const auto place = place_of(integer_attribute(node, "axis", 0), result.size());
    if (!place) return std::nullopt;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const Sizes* sizes = sizes_of(node, i);
      if (sizes == nullptr || sizes->size() != result.size()) return std::nullopt;
      std::int64_t& total = result[*place];
      const std::int64_t more = (*sizes)[*place];
      if (total < 0 || more < 0 || __builtin_add_overflow(total, more, &total)) total = new_symbol();
    }
    return result;
  }

  MaybeSizes sliced(const NodeText& node, const Sizes& input) {
    const Sizes* axes = integers_of(node, 3);
    if (axes == nullptr) return std::nullopt;
    const Sizes *starts = integers_of(node, 1), *ends = integers_of(node, 2);
    const bool has_bounds = starts != nullptr && ends != nullptr && input_of(node, 4).empty() &&
                            starts->size() == axes->size() && ends->size() == axes->size();
    Sizes result = input;
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const auto place = place_of((*axes)[i], result.size());
      if (!place) return std::nullopt;
      const std::int64_t size = result[*place];
      if (!has_bounds || size < 0) {
        result[*place] = new_symbol();
        continue;
      }
      const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
      result[*place] = std::max<std::int64_t>(bound((*ends)[i]) - bound((*starts)[i]), 0);
    }
    return result;
  }

  MaybeSizes gathered(const NodeText& node, const Sizes& input) const {
    const Sizes* indices = sizes_of(node, 1);
    const auto place = place_of(integer_attribute(node, "axis", 0), input.size());
    if (indices == nullptr || !place) return std::nullopt;
    Sizes result(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(*place));
    result.insert(result.end(), indices->begin(), indices->end());
    result.insert(result.end(), input.begin() + static_cast<std::ptrdiff_t>(*place) + 1, input.end());
    return result;
  }

  MaybeSizes reduced(const NodeText& node, const Sizes& input) const {
    const MaybeSizes attribute = integers_attribute(node, "axes");
    const Sizes* axes = attribute ? &*attribute : integers_of(node, 1);
    if (axes == nullptr || axes->empty() || integer_attribute(node, "keepdims", 1) != 1) return std::nullopt;
    Sizes result = input;
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, result.size());
      if (!place) return std::nullopt;
      result[*place] = 1;
    }
    return result;
  }

  MaybeSizes convolved(const NodeText& node, const Sizes& input) {
    const Sizes* weights = sizes_of(node, 1);
    if (weights == nullptr || weights->empty() || input.size() < 2) return std::nullopt;
    Sizes result{input.front(), weights->front()};
    while (result.size() < input.size()) result.push_back(new_symbol());
    return result;
  }

  static constexpr std::int64_t max_elements = 64;             // of a constant that is read: lists of sizes and axes
  static constexpr std::size_t max_rank = 16, max_parts = 16;  // so that no model takes the memory

  KnownValues known_;
  std::map<std::string, std::int64_t> named_;
  std::map<std::set<std::int64_t>, std::int64_t> joined_;
  std::map<std::int64_t, std::set<std::int64_t>> parts_;
  std::unordered_map<Name, Sizes> sizes_as_values_;  // what Shape gives, and what is picked from it
  std::int64_t last_symbol_ = 0;
};

}  // namespace

std::optional<Sizes> integers_attribute(const NodeText& node, std::string_view name) {
  Message attribute = attribute_of(node, name);
  std::optional<Sizes> list;
  while (attribute.next()) {
    if (attribute.field() != schema::attribute::ints) continue;
    if (!list) list.emplace();
    attribute.each_integer([&](std::int64_t element) { list->push_back(element); });
  }
  return list;
}

KnownValues known_values(Message graph, std::span<const NodeText> nodes) {
  return Inference().run(graph, nodes);
}

}  // namespace gpux::onnx
