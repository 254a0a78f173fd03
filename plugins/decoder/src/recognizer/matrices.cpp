#include "recognizer/matrices.h"

#include <algorithm>
#include <cmath>

namespace gpux_cpu::decoder {
namespace {

// The constant, if it is a matrix.
const Constant* float_matrix(GraphIndex& index, const std::string& value) {
  const Constant* const found = index.weights(value);
  const bool is_matrix = found != nullptr && found->shape.size() == 2 && found->shape[0] > 0 && found->shape[1] > 0;
  return is_matrix ? found : nullptr;
}

std::size_t size_at(const Constant& constant, std::size_t axis) {
  return static_cast<std::size_t>(constant.shape[axis]);
}

bool is_bytes(const Constant* constant, std::size_t count) {
  return constant != nullptr && constant->element_type == ElementType::uint8 && constant->count() == count;
}

bool is_floats(const Constant* constant, std::size_t count) {
  return constant != nullptr && constant->element_type == ElementType::float32 && constant->count() == count;
}

NotRecognized refusal(const Node& node, const std::string& reason) {
  return NotRecognized(node.type + " '" + node.name + "' " + reason);
}

// Weights in blocks of a node with these inputs, once its attributes are known.
void set_blocks(GraphIndex& index, const Node& node, std::size_t values, std::size_t scales, std::size_t zero_points,
                RecognizedMatrix& matrix) {
  const std::size_t bits = matrix.bits, size = matrix.block_size;
  if (bits != 4 && bits != 8) throw refusal(node, "has weights of " + std::to_string(bits) + " bits; accepted: 4, 8");
  constexpr std::size_t least_block = 16, largest_block = 256;
  if (size < least_block || size > largest_block || (size & (size - 1)) != 0) {
    throw refusal(node, "has blocks of " + std::to_string(size) + "; accepted: 16, 32, 64, 128, 256");
  }
  const std::size_t blocks = (matrix.inner + size - 1) / size;
  matrix.values = index.constant(input_of(node, values));
  matrix.scales = index.constant(input_of(node, scales));
  if (!is_bytes(matrix.values, matrix.columns * blocks * size * bits / 8) ||
      !is_floats(matrix.scales, matrix.columns * blocks)) {
    throw refusal(node, "has weights that are no constants of uint8 with scales of float32");
  }
  if (input_of(node, zero_points).empty()) return;
  matrix.zero_points = index.constant(input_of(node, zero_points));
  if (!is_bytes(matrix.zero_points, matrix.columns * ((blocks * bits + 7) / 8))) {
    throw refusal(node, "has zero points that are no constants of uint8");
  }
}

std::optional<MatrixProduct> product_of_floats(GraphIndex& index, const std::string& value) {
  if (const Node* const node = index.producer(value, "MatMul")) {
    const Constant* const weights = float_matrix(index, input_of(*node, 1));
    if (weights == nullptr) return std::nullopt;
    index.understand(node);
    return MatrixProduct{input_of(*node, 0),
                         {.weights = weights, .inner = size_at(*weights, 0), .columns = size_at(*weights, 1)}};
  }
  const Node* const node = index.producer(value, "Gemm");
  if (node == nullptr) return std::nullopt;
  const Constant* const weights = float_matrix(index, input_of(*node, 1));
  if (weights == nullptr || integer_of(*node, "transA", 0) != 0 || number_of(*node, "alpha", 1) != 1 ||
      number_of(*node, "beta", 1) != 1) {
    return std::nullopt;
  }
  const bool transposed = integer_of(*node, "transB", 0) != 0;
  RecognizedMatrix matrix{.weights = weights,
                          .transposed = transposed,
                          .inner = size_at(*weights, transposed ? 1 : 0),
                          .columns = size_at(*weights, transposed ? 0 : 1)};
  if (!input_of(*node, 2).empty()) {
    matrix.bias = index.constant(input_of(*node, 2));
    if (!is_floats(matrix.bias, matrix.columns)) return std::nullopt;
  }
  index.understand(node);
  return MatrixProduct{input_of(*node, 0), matrix};
}

std::optional<MatrixProduct> product_of_blocks(GraphIndex& index, const std::string& value) {
  const Node* const node = index.producer(value, "com.microsoft.MatMulNBits");
  if (node == nullptr) return std::nullopt;
  const std::int64_t inner = integer_of(*node, "K", 0), columns = integer_of(*node, "N", 0);
  if (inner <= 0 || columns <= 0) throw refusal(*node, "has no sizes");
  RecognizedMatrix matrix{.bits = static_cast<std::size_t>(integer_of(*node, "bits", 4)),
                          .block_size = static_cast<std::size_t>(integer_of(*node, "block_size", 0)),
                          .inner = static_cast<std::size_t>(inner),
                          .columns = static_cast<std::size_t>(columns)};
  // 1 to 3 ask for products of floats; 0 leaves it to the provider.
  const std::int64_t accuracy = integer_of(*node, "accuracy_level", 0);
  if (accuracy != 0 && accuracy != 4) {
    throw refusal(*node, "asks for products of floats (accuracy_level " + std::to_string(accuracy) +
                             "); accepted: 0 and 4, of bytes");
  }
  if (!input_of(*node, 4).empty()) throw refusal(*node, "has a g_idx");
  if (integer_of(*node, "weight_prepacked", 0) != 0) throw refusal(*node, "has packed weights");
  set_blocks(index, *node, 1, 2, 3, matrix);
  if (!input_of(*node, 5).empty()) {
    matrix.bias = index.constant(input_of(*node, 5));
    if (!is_floats(matrix.bias, matrix.columns)) throw refusal(*node, "has a bias that is no constant of float32");
  }
  index.understand(node);
  return MatrixProduct{input_of(*node, 0), matrix};
}

// [blocks, columns].
bool set_minimums(GraphIndex& index, const std::string& value, RecognizedMatrix& matrix) {
  const Constant* const minimums = index.constant(value);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(matrix.inner / matrix.block_size),
                                        static_cast<std::int64_t>(matrix.columns)};
  if (matrix.inner % matrix.block_size != 0 || minimums == nullptr || minimums->shape != shape ||
      minimums->element_type != ElementType::float32) {
    return false;
  }
  matrix.minimums = minimums;
  return true;
}

// A Reshape to [..., blocks, block_size], whose axes before are those of its input.
const Node* split_into_blocks(GraphIndex& index, const std::string& value, const RecognizedMatrix& matrix) {
  const Node* const split = index.producer(value, "Reshape");
  const auto shape = split == nullptr ? std::nullopt : index.integers(input_of(*split, 1));
  if (!shape || shape->size() < 2 || integer_of(*split, "allowzero", 0) != 0) return nullptr;
  const std::size_t outer = shape->size() - 2;
  const bool keeps_others = std::all_of(shape->begin(), shape->begin() + static_cast<std::ptrdiff_t>(outer),
                                        [](std::int64_t size) { return size == 0; });
  const auto blocks = static_cast<std::int64_t>(matrix.inner / matrix.block_size);
  const bool fits = shape->at(outer) == blocks && shape->at(outer + 1) == static_cast<std::int64_t>(matrix.block_size);
  return keeps_others && fits ? split : nullptr;
}

// The sums of the blocks of the product's input.
bool understands_sums(GraphIndex& index, const std::string& value, const MatrixProduct& product) {
  const Node* const sums = index.producer(value, "ReduceSum");
  if (sums == nullptr || integer_of(*sums, "keepdims", 1) != 0 ||
      index.integers(input_of(*sums, 1)) != std::vector<std::int64_t>{-1}) {
    return false;
  }
  const Node* const split = split_into_blocks(index, input_of(*sums, 0), product.matrix);
  if (split == nullptr || input_of(*split, 0) != product.input) return false;
  index.understand(split);
  index.understand(sums);
  return true;
}

// A product of blocks, less that of the sums of the input's blocks and the minimums.
std::optional<MatrixProduct> product_with_minimums(GraphIndex& index, const std::string& value) {
  const Node* const less = index.producer(value, "Sub");
  const Node* const taken = less == nullptr ? nullptr : index.producer(input_of(*less, 1), "MatMul");
  if (taken == nullptr) return std::nullopt;
  auto product = product_of_blocks(index, input_of(*less, 0));
  if (!product || product->matrix.bias != nullptr || !set_minimums(index, input_of(*taken, 1), product->matrix) ||
      !understands_sums(index, input_of(*taken, 0), *product)) {
    return std::nullopt;
  }
  index.understand(taken);
  index.understand(less);
  return product;
}

std::optional<MatrixProduct> product_without_bias(GraphIndex& index, const std::string& value) {
  auto product = product_of_floats(index, value);
  if (!product) product = product_of_blocks(index, value);
  return product ? product : product_with_minimums(index, value);
}

// Where the last block of a row is filled up.
const Node* slice_of_columns(GraphIndex& index, const std::string& value, std::size_t& columns) {
  const Node* const slice = index.producer(value, "Slice");
  if (slice == nullptr) return nullptr;
  const auto starts = index.integers(input_of(*slice, 1)), ends = index.integers(input_of(*slice, 2)),
             axes = index.integers(input_of(*slice, 3));
  using Integers = std::vector<std::int64_t>;
  if (starts != Integers{0} || !ends || ends->size() != 1 || ends->front() <= 0) return nullptr;
  if ((axes != Integers{-1} && axes != Integers{2}) || !input_of(*slice, 4).empty()) return nullptr;
  columns = static_cast<std::size_t>(ends->front());
  return slice;
}

std::optional<TokenLookup> lookup_of_blocks(GraphIndex& index, const std::string& value) {
  std::size_t columns = 0;
  const Node* const slice = slice_of_columns(index, value, columns);
  const Node* const node =
      index.producer(slice != nullptr ? input_of(*slice, 0) : value, "com.microsoft.GatherBlockQuantized");
  if (node == nullptr) return std::nullopt;
  const Constant* const values = index.constant(input_of(*node, 0));
  const std::int64_t bits = integer_of(*node, "bits", 4), axis = integer_of(*node, "quantize_axis", 1);
  if (values == nullptr || values->shape.size() != 2 || values->shape[0] <= 0 || (bits != 4 && bits != 8) ||
      integer_of(*node, "gather_axis", 0) != 0 || (axis != 1 && axis != -1)) {
    throw refusal(*node, "gathers something else than rows of a constant table of uint8");
  }
  const std::size_t stored = size_at(*values, 1) * 8 / static_cast<std::size_t>(bits);
  RecognizedMatrix table{.bits = static_cast<std::size_t>(bits),
                         .block_size = static_cast<std::size_t>(integer_of(*node, "block_size", 128)),
                         .inner = slice != nullptr ? columns : stored,
                         .columns = size_at(*values, 0)};
  if (table.inner > stored) return std::nullopt;
  set_blocks(index, *node, 0, 2, 3, table);
  index.understand(node);
  if (slice != nullptr) index.understand(slice);
  return TokenLookup{input_of(*node, 1), table};
}

// Blocks of rows, less the minimums of the same rows.
std::optional<TokenLookup> lookup_with_minimums(GraphIndex& index, const std::string& value) {
  const Node* const whole = index.producer(value, "Reshape");
  const Node* const less = whole == nullptr ? nullptr : index.producer(input_of(*whole, 0), "Sub");
  const Node* const spread = less == nullptr ? nullptr : index.producer(input_of(*less, 1), "Unsqueeze");
  const Node* const turned = spread == nullptr ? nullptr : index.producer(input_of(*spread, 0), "Transpose");
  const Node* const minimums = turned == nullptr ? nullptr : index.producer(input_of(*turned, 0), "Gather");
  const Node* const split = less == nullptr ? nullptr : index.producer(input_of(*less, 0), "Reshape");
  if (minimums == nullptr || split == nullptr) return std::nullopt;
  auto lookup = lookup_of_blocks(index, input_of(*split, 0));
  if (!lookup) return std::nullopt;
  RecognizedMatrix& table = lookup->table;
  using Integers = std::vector<std::int64_t>;
  const auto order = turned->attributes.find("perm");
  const bool is_of_rows = integer_of(*minimums, "axis", 0) == 1 && input_of(*minimums, 1) == lookup->input_ids &&
                          order != turned->attributes.end() && order->second.integers == Integers{1, 2, 0} &&
                          set_minimums(index, input_of(*minimums, 0), table);
  if (!is_of_rows || index.integers(input_of(*spread, 1)) != Integers{-1} ||
      split_into_blocks(index, input_of(*less, 0), table) == nullptr ||
      index.integers(input_of(*whole, 1)) != Integers{0, 0, static_cast<std::int64_t>(table.inner)}) {
    return std::nullopt;
  }
  for (const Node* const node : {whole, less, spread, turned, minimums, split}) index.understand(node);
  return lookup;
}

std::optional<TokenLookup> unscaled_lookup(GraphIndex& index, const std::string& value) {
  if (const Node* const gather = index.producer(value, "Gather")) {
    const Constant* const table = float_matrix(index, input_of(*gather, 0));
    if (table == nullptr || integer_of(*gather, "axis", 0) != 0) return std::nullopt;
    index.understand(gather);
    return TokenLookup{
        input_of(*gather, 1),
        {.weights = table, .transposed = true, .inner = size_at(*table, 1), .columns = size_at(*table, 0)}};
  }
  if (auto lookup = lookup_with_minimums(index, value)) return lookup;
  return lookup_of_blocks(index, value);
}

}  // namespace

std::optional<MatrixProduct> matrix_product(GraphIndex& index, const std::string& value) {
  if (auto product = product_without_bias(index, value)) return product;
  const Node* const add = index.producer(value, "Add");
  if (add == nullptr) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const Constant* const bias = index.constant(input_of(*add, 1 - side));
    if (bias == nullptr) continue;
    auto product = product_without_bias(index, input_of(*add, side));
    if (!product || product->matrix.bias != nullptr || !is_floats(bias, product->matrix.columns)) return std::nullopt;
    product->matrix.bias = bias;
    index.understand(add);
    return product;
  }
  return std::nullopt;
}

std::optional<TokenLookup> token_lookup(GraphIndex& index, const std::string& value) {
  if (const Node* const multiply = index.producer(value, "Mul")) {
    for (const std::size_t side : {0, 1}) {
      const auto scale = index.scalar(input_of(*multiply, 1 - side));
      if (!scale) continue;
      auto lookup = unscaled_lookup(index, input_of(*multiply, side));
      if (!lookup) return std::nullopt;
      lookup->scale = *scale;
      index.understand(multiply);
      return lookup;
    }
    return std::nullopt;
  }
  return unscaled_lookup(index, value);
}

std::optional<NormOf> norm_of(GraphIndex& index, const std::string& value) {
  const Node* const node = index.producer(value);
  if (node == nullptr || node->outputs.front() != value) return std::nullopt;
  const bool is_skip = node->type == "SkipSimplifiedLayerNormalization" || node->type == "SkipLayerNormalization";
  const bool is_rms = node->type == "SimplifiedLayerNormalization" || node->type == "RMSNormalization" ||
                      node->type == "SkipSimplifiedLayerNormalization";
  if (!is_skip && !is_rms && node->type != "LayerNormalization") return std::nullopt;
  if (!is_skip && integer_of(*node, "axis", -1) != -1) return std::nullopt;
  NormOf found{.input = is_skip ? std::string() : input_of(*node, 0),
               .norm = {.kind = is_rms ? NormKind::rms_norm : NormKind::layer_norm,
                        .gamma = index.constant(input_of(*node, is_skip ? 2 : 1)),
                        .epsilon = number_of(*node, "epsilon", is_skip ? 1e-12F : 1e-5F)},
               .sum = is_skip ? node : nullptr};
  const std::size_t beta = is_skip ? 3 : 2;
  if (found.norm.gamma == nullptr || found.norm.gamma->element_type != ElementType::float32) return std::nullopt;
  if (!input_of(*node, beta).empty()) {
    // SkipSimplifiedLayerNormalization has a bias of the sum there.
    if (is_skip && is_rms) return std::nullopt;
    found.norm.beta = index.constant(input_of(*node, beta));
    if (!is_floats(found.norm.beta, found.norm.size())) return std::nullopt;
  }
  if (is_skip && !is_rms && !input_of(*node, 4).empty()) return std::nullopt;
  index.understand(node);
  return found;
}

std::optional<ActivationOf> activation_of(GraphIndex& index, const std::string& value) {
  const Node* const node = index.producer(value);
  if (node == nullptr || node->outputs.front() != value) return std::nullopt;
  const auto found = [&](Activation activation) {
    index.understand(node);
    return ActivationOf{input_of(*node, 0), activation};
  };
  constexpr float quick = 1.702F;
  if (node->type == "Relu") return found(Activation::relu);
  if (node->type == "Gelu") {
    const auto approximate = node->attributes.find("approximate");
    const bool is_tanh = approximate != node->attributes.end() && approximate->second.text == "tanh";
    return found(is_tanh ? Activation::tanh_gelu : Activation::gelu);
  }
  if (node->type == "FastGelu" && input_of(*node, 1).empty()) return found(Activation::tanh_gelu);
  if (node->type == "QuickGelu" || node->type == "Swish") {
    const float alpha = number_of(*node, "alpha", node->type == "Swish" ? 1 : quick);
    if (alpha == 1) return found(Activation::silu);
    return alpha == quick ? std::optional(found(Activation::quick_gelu)) : std::nullopt;
  }
  if (node->type != "Mul") return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const std::string& x = input_of(*node, side);
    const Node* const sigmoid = index.producer(input_of(*node, 1 - side), "Sigmoid");
    if (sigmoid == nullptr) continue;
    const std::string& inner = input_of(*sigmoid, 0);
    const Node* const scaled = index.producer(inner, "Mul");
    std::optional<Activation> activation;
    if (inner == x) activation = Activation::silu;
    for (const std::size_t of : {0, 1}) {
      if (scaled == nullptr || input_of(*scaled, of) != x) continue;
      if (index.scalar(input_of(*scaled, 1 - of)) == quick) activation = Activation::quick_gelu;
    }
    if (!activation) continue;
    index.understand(sigmoid);
    if (*activation == Activation::quick_gelu) index.understand(scaled);
    index.understand(node);
    return ActivationOf{x, *activation};
  }
  return std::nullopt;
}

}  // namespace gpux_cpu::decoder
