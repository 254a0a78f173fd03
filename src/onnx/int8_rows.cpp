#include "onnx/int8_rows.h"

#include <optional>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "gpux/tensor.h"
#include "onnx/graph_writer.h"
#include "onnx/message.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

constexpr std::int64_t first_ir_with_functions = 8, first_opset = 13, first_opset_with_reduced_axes = 18;
constexpr std::int64_t row_axis = 3, block_axis = 4;
constexpr const char *coded = "coded", *plain = "plain";
constexpr float largest_code = 127, fractions = 128, largest_exponent = 100;

/// The body of a function, in terms of its one input. Values are named by the writer.
class Body {
 public:
  Body(std::int64_t head_size, std::int64_t opset)
      : writer_({}, "value"),
        opset_(opset),
        head_size_(head_size),
        block_size_(int8_block_size(head_size)),
        blocks_(head_size / block_size_) {}

  std::string from_rows() {
    const std::string codes = cast(part(coded, 0, head_size_), ElementType::float32);
    const std::string exponents = cast(part(coded, head_size_, head_size_ + blocks_), ElementType::float32);
    const std::string fraction =
        cast(part(coded, head_size_ + blocks_, head_size_ + 2 * blocks_), ElementType::float32);
    const std::string scales = node("Unsqueeze", {scale_of(exponents, fraction), integers({block_axis})});
    (void)reshape(node("Mul", {in_blocks(codes), scales}), {0, 0, 0, head_size_}, plain);
    return take();
  }

  std::string to_rows() {
    const std::string blocks = in_blocks(plain);
    const std::string unit = node("Max", {node("Div", {largest(node("Abs", {blocks})), number(largest_code)}),
                                          power_of_two(number(-largest_exponent))});
    const std::string exponents = exponent_of(unit);
    const std::string beyond_one = node("Sub", {node("Div", {unit, power_of_two(exponents)}), number(1)});
    const std::string fraction = clip(node("Floor", {node("Mul", {beyond_one, number(fractions)})}), 0, fractions - 1);
    const std::string codes =
        clip(node("Round", {node("Div", {blocks, scale_of(exponents, fraction)})}), -largest_code, largest_code);
    std::vector<std::string> parts;
    for (const auto& [value, size] :
         {std::pair(codes, head_size_), std::pair(exponents, blocks_), std::pair(fraction, blocks_)}) {
      parts.push_back(cast(reshape(value, {0, 0, 0, size}), ElementType::int8));
    }
    (void)writer_.node("Concat", parts, {{"axis", row_axis}}, coded);
    return take();
  }

 private:
  std::string node(std::string_view type, const std::vector<std::string>& inputs) { return writer_.node(type, inputs); }

  // Functions have no initializers.
  std::string number(float value) { return writer_.node("Constant", {}, {{"value_float", value}}); }

  std::string integers(std::vector<std::int64_t> values) {
    return writer_.node("Constant", {}, {{"value_ints", std::move(values)}});
  }

  std::string cast(const std::string& value, ElementType type) {
    return writer_.node("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
  }

  std::string reshape(const std::string& value, std::vector<std::int64_t> sizes, std::string_view output = {}) {
    return writer_.node("Reshape", {value, integers(std::move(sizes))}, {}, output);
  }

  std::string part(const std::string& rows, std::int64_t begin, std::int64_t end) {
    return node("Slice", {rows, integers({begin}), integers({end}), integers({row_axis})});
  }

  std::string in_blocks(const std::string& rows) { return reshape(rows, {0, 0, 0, blocks_, block_size_}); }

  std::string power_of_two(const std::string& exponent) { return node("Pow", {number(2), exponent}); }

  std::string scale_of(const std::string& exponent, const std::string& fraction) {
    const std::string factor = node("Add", {node("Mul", {fraction, number(1 / fractions)}), number(1)});
    return node("Mul", {power_of_two(exponent), factor});
  }

  std::string largest(const std::string& blocks) {
    if (opset_ >= first_opset_with_reduced_axes) return node("ReduceMax", {blocks, integers({block_axis})});
    return writer_.node("ReduceMax", {blocks}, {{"axes", std::vector<std::int64_t>{block_axis}}});
  }

  std::string clip(const std::string& value, float low, float high) {
    return node("Clip", {value, number(low), number(high)});
  }

  // The largest e with 2^e <= unit: a logarithm may be rounded beyond it.
  std::string exponent_of(const std::string& unit) {
    constexpr float reciprocal_of_log_2 = 1.4426950408889634F;
    const std::string near = node("Floor", {node("Mul", {node("Log", {unit}), number(reciprocal_of_log_2)})});
    const std::string ratio = node("Div", {unit, power_of_two(near)});
    const std::string above = cast(node("GreaterOrEqual", {ratio, number(2)}), ElementType::float32);
    const std::string below = cast(node("Less", {ratio, number(1)}), ElementType::float32);
    return clip(node("Sub", {node("Add", {near, above}), below}), -largest_exponent, largest_exponent);
  }

  std::string take() { return writer_.fields(); }

  GraphWriter writer_;
  std::int64_t opset_, head_size_, block_size_, blocks_;
};

void append_function(std::string& head, std::string_view name, const char* input, const char* output,
                     std::string_view nodes, std::int64_t opset) {
  protozero::pbf_writer model(head);
  protozero::pbf_writer function(model, schema::model::functions);
  function.add_string(schema::function::name, name.data(), name.size());
  function.add_string(schema::function::input, input);
  function.add_string(schema::function::output, output);
  for (Message graph(nodes); graph.next();) {
    if (graph.field() == schema::graph::node) {
      function.add_message(schema::function::node, graph.bytes().data(), graph.bytes().size());
    }
  }
  {
    protozero::pbf_writer import(function, schema::function::opset_import);
    import.add_string(schema::opset::domain, "");
    import.add_int64(schema::opset::version, opset);
  }
  function.add_string(schema::function::domain, int8_rows_domain.data(), int8_rows_domain.size());
}

/// The version of ONNX's own operators; none: functions cannot be added.
std::optional<std::int64_t> usable_opset(std::string_view head) {
  std::int64_t ir = 0, opset = 0;
  for (Message model(head); model.next();) {
    if (model.field() == schema::model::ir_version) ir = model.integer();
    if (model.field() != schema::model::opset_import) continue;
    std::string_view domain;
    std::int64_t version = 0;
    for (Message import = model.message(); import.next();) {
      if (import.field() == schema::opset::domain) domain = import.bytes();
      if (import.field() == schema::opset::version) version = import.integer();
    }
    if (domain == int8_rows_domain) return std::nullopt;
    if (domain.empty() || domain == "ai.onnx") opset = version;
  }
  if (ir < first_ir_with_functions || opset < first_opset) return std::nullopt;
  return opset;
}

}  // namespace

bool append_int8_functions(std::string& head, std::int64_t head_size) {
  const std::optional<std::int64_t> opset = usable_opset(head);
  if (!opset) return false;
  append_function(head, from_int8_rows, coded, plain, Body(head_size, *opset).from_rows(), *opset);
  append_function(head, to_int8_rows, plain, coded, Body(head_size, *opset).to_rows(), *opset);
  protozero::pbf_writer model(head);
  protozero::pbf_writer import(model, schema::model::opset_import);
  import.add_string(schema::opset::domain, int8_rows_domain.data(), int8_rows_domain.size());
  import.add_int64(schema::opset::version, 1);
  return true;
}

}  // namespace gpux::onnx
