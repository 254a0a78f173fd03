#include "onnx/int8_rows.h"

#include <optional>
#include <utility>
#include <vector>

#include "gpux/tensor.h"
#include "onnx/graph_writer.h"
#include "onnx/model_functions.h"

namespace gpux::onnx {
namespace {

constexpr std::int64_t first_opset_with_reduced_axes = 18;
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

}  // namespace

bool append_int8_functions(std::string& head, std::int64_t head_size) {
  const std::optional<std::int64_t> opset = opset_for_functions(head, int8_rows_domain);
  if (!opset) return false;
  const std::string from = Body(head_size, *opset).from_rows(), to = Body(head_size, *opset).to_rows();
  append_function(head,
                  {.domain = int8_rows_domain, .name = from_int8_rows, .input = coded, .output = plain, .nodes = from},
                  *opset);
  append_function(
      head, {.domain = int8_rows_domain, .name = to_int8_rows, .input = plain, .output = coded, .nodes = to}, *opset);
  append_domain(head, int8_rows_domain);
  return true;
}

}  // namespace gpux::onnx
