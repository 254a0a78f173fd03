#include <array>
#include <vector>

#include "onnx/fused_attention.h"
#include "onnx/graph_writer.h"

namespace gpux::onnx {
namespace {

constexpr float epsilon = 1e-5F;

/// The plain nodes that operators of these forms replace.
class ExampleWriter {
 public:
  explicit ExampleWriter(bool is_float16)
      : type_(is_float16 ? ElementType::float16 : ElementType::float32), graph_("example") {}

  void attention(const AttentionForm& form) {
    const std::int64_t size = form.heads * form.head_size;
    const std::string query = split(form, input({"batch", "sequence", size}), {0, 2, 1, 3});
    const std::string projected = input({"batch", "sequence", size});
    std::string keys = split(form, projected, {0, 2, 3, 1});
    if (!form.are_keys_packed) keys = transposed(split(form, projected, {0, 2, 1, 3}), {0, 1, 3, 2});
    const std::string values = split(form, input({"batch", "sequence", size}), {0, 2, 1, 3});
    std::string scores = graph_.node("MatMul", {query, keys});
    const std::int64_t one = 1;
    if (form.bias_heads == 1) scores = graph_.node("Add", {scores, input({"batch", one, one, "sequence"})});
    if (form.bias_heads > 1) {
      scores = graph_.node("Add", {scores, input({"batch", form.bias_heads, "sequence", "sequence"})});
    }
    const std::string shares = graph_.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string mixed = transposed(graph_.node("MatMul", {shares, values}), {0, 2, 1, 3});
    output(graph_.node("Reshape", {mixed, graph_.integers(std::array<std::int64_t, 3>{0, 0, size})}), size);
  }

  void norm(const NormForm& form) {
    constexpr float bias = 0.25F;
    const std::vector<WrittenSize> sizes{"batch", "sequence", form.size};
    // Before the sum, in whose place the operator is put.
    std::vector<std::string> inputs{{}, weights(form.size, 1)};
    if (form.has_bias) inputs.push_back(weights(form.size, bias));
    std::string& value = inputs.front();
    value = input(sizes);
    if (form.has_sum) value = graph_.node("Add", {value, input(sizes)});
    const Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", epsilon}};
    const char* type = form.is_simplified ? "SimplifiedLayerNormalization" : "LayerNormalization";
    output(graph_.node(type, inputs, attributes), form.size);
    if (form.has_sum) output(value, form.size);
  }

  [[nodiscard]] std::string model() const {
    constexpr std::int64_t opset = 17, ir_version = 8;
    return graph_.model(opset, ir_version);
  }

 private:
  std::string cast(const std::string& value, ElementType type, std::string_view name = {}) {
    return graph_.node("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}}, name);
  }

  std::string input(const std::vector<WrittenSize>& sizes) {
    const std::string name = "input." + std::to_string(inputs_++);
    graph_.input(name, ElementType::float32, sizes);
    return type_ == ElementType::float32 ? name : cast(name, type_);
  }

  void output(const std::string& value, std::int64_t size) {
    const std::string name = "output." + std::to_string(outputs_++);
    (void)cast(value, ElementType::float32, name);
    graph_.output(name, ElementType::float32, std::array<WrittenSize, 3>{"batch", "sequence", size});
  }

  std::string weights(std::int64_t size, float first) {
    std::vector<float> elements(static_cast<std::size_t>(size), first);
    for (std::size_t i = 0; i < elements.size(); i += 2) elements[i] += first / 2;
    const std::string name = graph_.floats("weights." + std::to_string(weights_++), elements, {size});
    return type_ == ElementType::float32 ? name : cast(name, type_);
  }

  std::string transposed(const std::string& value, const std::vector<std::int64_t>& order) {
    return graph_.node("Transpose", {value}, {{"perm", order}});
  }

  std::string split(const AttentionForm& form, const std::string& value, const std::vector<std::int64_t>& order) {
    const std::array<std::int64_t, 4> sizes{0, 0, form.heads, form.head_size};
    return transposed(graph_.node("Reshape", {value, graph_.integers(sizes)}), order);
  }

  ElementType type_;
  GraphWriter graph_;
  std::size_t inputs_ = 0, outputs_ = 0, weights_ = 0;
};

}  // namespace

std::string fusion_example(const std::set<AttentionForm>& attentions, const std::set<NormForm>& norms,
                           bool is_float16) {
  ExampleWriter writer(is_float16);
  for (const AttentionForm& form : attentions) writer.attention(form);
  for (const NormForm& form : norms) writer.norm(form);
  return writer.model();
}

}  // namespace gpux::onnx
