#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/weights.h"
#include "importer/architecture.h"
#include "onnx/block_nodes.h"
#include "onnx/graph_writer.h"

namespace gpux::importer {

/// Which operators a graph may have.
enum class Operators : std::uint8_t {
  onnx,         ///< those of ONNX alone
  onnxruntime,  ///< also ONNX Runtime's own (com.microsoft)
};

/// How the matrices of a model are stored: the weights of linear layers, and the table of the words. Those that the
/// weights have in blocks are stored in these. Norms, biases and learned positions are float32.
struct WeightStorage {
  /// float16 and bfloat16 of the file stay what they are, with a Cast to float32 behind them. ONNX Runtime computes it
  /// when it loads the model.
  bool keeps_small_floats = false;
  std::optional<onnx::BlockFormat> blocks{};  ///< all matrices are rounded to blocks
};

/// The ONNX graph in the making, and the weights it takes its constants from. Constants of the weights are read when
/// the file is written, one at a time. Names of inputs and outputs of nodes are strings.
class GraphContext {
 public:
  /// `weights` outlives the context.
  explicit GraphContext(const checkpoint::Weights& weights, Operators operators = Operators::onnx,
                        const WeightStorage& storage = {})
      : weights_(weights),
        operators_(operators),
        storage_(storage),
        graph_(operators == Operators::onnx ? "encoder" : "decoder") {}

  [[nodiscard]] onnx::GraphWriter& graph() noexcept { return graph_; }

  [[nodiscard]] const checkpoint::Weights& weights() const noexcept { return weights_; }

  /// A node of one output.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const onnx::Attributes& attributes = {}, std::string_view output = {}) {
    return graph_.node(type, inputs, attributes, output);
  }

  /// A list of integers.
  std::string list(std::initializer_list<std::int64_t> elements) {
    return graph_.integers(std::vector<std::int64_t>(elements));
  }

  std::string scalar(float value) { return graph_.scalar(value); }

  /// A node of any inputs, made once: what several layers need.
  const std::string& once(const std::string& key, const std::function<std::string()>& make);

  /// A tensor of the weights, under its own name. Errors invalid_model: it is missing, or has other sizes.
  std::string tensor(const std::string& name, const Shape& shape);

  /// A tensor with each element multiplied by `scale` after `offset` was added.
  std::string tensor(const std::string& name, const Shape& shape, float offset, float scale);

  /// Rows of a tensor float[rows, columns], by indices, int64[batch, tokens].
  std::string gathered(const std::string& table, const Shape& shape, const std::string& indices);

  /// input W^T + b, of an input of two dimensions. The weight may be a table of gathered(), and is stored once then.
  std::string linear_by_rows(const std::string& input, const Linear& linear);

  /// A tensor of the weights that `make` turns into one of the shape `made`, under the name NAME.form: calls with the
  /// same name and form are the same.
  std::string derived(const std::string& name, const Shape& shape, const std::string& form, const Shape& made,
                      std::function<std::vector<float>(std::vector<float>)> make);

  /// input W^T + b. `scale` goes into both. An input has three axes where the weight is in blocks with minimums. With
  /// an adapter: Add(that, adapted()) (importer/graph/adapters.h).
  std::string linear(const std::string& input, const Linear& linear, float scale = 1, std::string_view output = {});

  /// Over the last axis, which has norm.size elements. RMS norms are written as Mul, ReduceMean, Add, Sqrt, Div, Mul,
  /// or as SimplifiedLayerNormalization where ONNX Runtime's operators are allowed. `scale` goes into the weight.
  std::string normalized(const std::string& input, const Norm& norm, float scale = 1, std::string_view output = {});

  /// Relu, Tanh, Sigmoid and Gelu are operators. silu: Mul(x, Sigmoid(x)).
  std::string activated(const std::string& input, checkpoint::Activation activation, std::string_view output = {});

  /// int64[1]: the number of tokens in a row of input_ids.
  const std::string& sequence_length();

  /// Writes down that the tensor is part of the computation, and reads it now. For what is computed from it at once.
  std::vector<float> floats(const std::string& name, const Shape& shape);

  /// Names of tensors that were used so far.
  [[nodiscard]] const std::set<std::string>& used() const noexcept { return used_; }

 private:
  std::string plain_linear(const std::string& input, const Linear& linear, float scale, std::string_view output);
  /// Whether a tensor is used for the first time. Error internal: it was used in another form.
  bool is_new(const std::string& name, const std::string& form);
  std::string constant(const std::string& name, const Shape& shape, const std::string& content,
                       onnx::FloatSource source);
  /// The weight as float32[out, in], or turned, [in, out].
  std::string matrix(const Linear& linear, bool turned, float scale);
  /// The blocks that a weight is stored in; none: it has elements of a floating type.
  [[nodiscard]] std::optional<onnx::BlockFormat> block_format(const Linear& linear) const;
  onnx::BlockConstant blocks(const Linear& linear, const onnx::BlockFormat& format, float scale);
  std::string block_product(const onnx::RankedValue& input, const onnx::BlockConstant& matrix, std::string_view output);
  std::string bias(const Linear& linear, float scale);

  const checkpoint::Weights& weights_;
  Operators operators_;
  WeightStorage storage_;
  onnx::GraphWriter graph_;
  std::map<std::string, std::string> once_;       // by key: the value
  std::map<std::string, std::string> constants_;  // by name: what it was made of
  std::map<std::string, onnx::BlockConstant> blocks_;
  std::set<std::string> used_;
};

}  // namespace gpux::importer
