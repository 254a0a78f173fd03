#include "importer/graph/image_graph.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "importer/graph/embeddings.h"
#include "importer/graph/graph_context.h"
#include "importer/graph/position_resize.h"
#include "importer/graph/transformer_layers.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t opset = 20;  // the first with Gelu
constexpr std::int64_t ir_version = 9;
constexpr std::int64_t type_int32 = 6;  // ONNX's TensorProto.DataType

class ImageWriter {
 public:
  ImageWriter(const checkpoint::Weights& weights, const ImageArchitecture& model, image::Size size)
      : context_(weights), model_(model), size_(size) {}

  std::set<std::string> write(const std::filesystem::path& file) {
    const PatchEmbeddings& embeddings = model_.embeddings;
    const std::array<onnx::WrittenSize, 4> sizes{"batch", embeddings.channels, size_.height, size_.width};
    context_.graph().input("pixel_values", ElementType::float32, sizes);
    std::string tokens = this->tokens();
    if (embeddings.norm) tokens = context_.normalized(tokens, *embeddings.norm);
    const ImageHeadKind kind = model_.head.kind;
    const bool gives_hidden = kind != ImageHeadKind::classification && kind != ImageHeadKind::projection;
    const std::string hidden =
        write_layers(context_, model_.transformer, tokens, gives_hidden ? "last_hidden_state" : "");
    write_head(hidden);
    if (gives_hidden) {
      const std::array<onnx::WrittenSize, 3> shape{"batch", prefix_count() + patch_count(), hidden_size()};
      context_.graph().output(hidden, ElementType::float32, shape);
    }
    if (!file.empty()) context_.graph().write(file, opset, ir_version);
    return context_.used();
  }

 private:
  [[nodiscard]] std::int64_t hidden_size() const { return model_.transformer.hidden_size; }

  [[nodiscard]] std::int64_t rows() const { return size_.height / model_.embeddings.patch_size; }

  [[nodiscard]] std::int64_t columns() const { return size_.width / model_.embeddings.patch_size; }

  [[nodiscard]] std::int64_t patch_count() const { return rows() * columns(); }

  // The class token and registers.
  [[nodiscard]] std::int64_t prefix_count() const {
    return (model_.embeddings.class_token.empty() ? 0 : 1) + model_.embeddings.register_count;
  }

  // The stored shape, with or without a batch of 1.
  std::vector<float> floats(const std::string& name, std::int64_t rows, std::int64_t size) {
    const std::size_t rank = context_.weights().shape(name).size();
    if (rank == 3) return context_.floats(name, {1, rows, size});
    return rank == 1 && rows == 1 ? context_.floats(name, {size}) : context_.floats(name, {rows, size});
  }

  // Of the class token, if there is one, and of the patches of these images.
  std::vector<float> positions() {
    const PatchEmbeddings& embeddings = model_.embeddings;
    const std::int64_t grid = embeddings.grid(), first = embeddings.class_token.empty() ? 0 : 1;
    std::vector<float> all = floats(embeddings.positions, first + grid * grid, embeddings.size);
    if (rows() == grid && columns() == grid) return all;
    if (embeddings.resize == PositionResize::refused) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("preprocessor_config.json makes images of {}x{} pixels; the position embeddings are for "
                              "{}x{}, which is accepted",
                              size_.width, size_.height, embeddings.image_size, embeddings.image_size));
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * embeddings.size);
    const std::vector<float> patches = resized_positions(std::vector<float>(begin, all.end()), grid, rows(), columns(),
                                                         embeddings.size, embeddings.resize);
    all.erase(begin, all.end());
    all.insert(all.end(), patches.begin(), patches.end());
    return all;
  }

  // [batch, prefix + patches, size]
  std::string tokens() {
    const PatchEmbeddings& embeddings = model_.embeddings;
    const std::int64_t size = embeddings.size, patch = embeddings.patch_size;
    std::vector<std::string> inputs{"pixel_values",
                                    context_.tensor(embeddings.weight, {size, embeddings.channels, patch, patch})};
    if (!embeddings.bias.empty()) inputs.push_back(context_.tensor(embeddings.bias, {size}));
    const std::vector<std::int64_t> sides{patch, patch};
    const std::string grid = context_.node("Conv", inputs, {{"kernel_shape", sides}, {"strides", sides}});
    const std::string columns = context_.node("Reshape", {grid, context_.list({0, size, patch_count()})});
    std::string patches = context_.node("Transpose", {columns}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    std::vector<float> all = positions();
    const auto first = static_cast<std::ptrdiff_t>(embeddings.class_token.empty() ? 0 : size);
    const std::vector<float> of_patches(all.begin() + first, all.end());
    patches = context_.node(
        "Add", {patches, context_.graph().floats(embeddings.positions, of_patches, {patch_count(), size})});
    if (prefix_count() == 0) return patches;
    return context_.node("Concat", {prefix({all.begin(), all.begin() + first}), patches}, {{"axis", std::int64_t{1}}});
  }

  // The class token with its position, and the registers, for each image: [batch, prefix, size].
  std::string prefix(const std::vector<float>& position) {
    const PatchEmbeddings& embeddings = model_.embeddings;
    std::vector<float> elements = floats(embeddings.class_token, 1, embeddings.size);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] += position[i];
    if (!embeddings.registers.empty()) {
      const std::vector<float> registers = floats(embeddings.registers, embeddings.register_count, embeddings.size);
      elements.insert(elements.end(), registers.begin(), registers.end());
    }
    const std::string constant =
        context_.graph().floats(embeddings.class_token, elements, {1, prefix_count(), embeddings.size});
    const std::string batch =
        context_.node("Shape", {"pixel_values"}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    const std::string shape =
        context_.node("Concat", {batch, context_.list({prefix_count(), embeddings.size})}, {{"axis", std::int64_t{0}}});
    return context_.node("Expand", {constant, shape});
  }

  // [batch, hidden]
  std::string first_token(const std::string& hidden, std::string_view output = {}) {
    const std::string first =
        context_.node("Slice", {hidden, context_.list({0}), context_.list({1}), context_.list({1})});
    return context_.node("Squeeze", {first, context_.list({1})}, {}, output);
  }

  void output(const std::string& value, std::int64_t width) {
    const std::array<onnx::WrittenSize, 2> sizes{"batch", width};
    context_.graph().output(value, ElementType::float32, sizes);
  }

  void write_head(const std::string& hidden) {
    const ImageHead& head = model_.head;
    switch (head.kind) {
      case ImageHeadKind::class_token:
        return output(first_token(hidden, "pooler_output"), hidden_size());
      case ImageHeadKind::pooler:
        return output(context_.node("Tanh", {context_.linear(first_token(hidden), head.dense)}, {}, "pooler_output"),
                      head.dense.out);
      case ImageHeadKind::projection:
        return output(
            // NOLINTNEXTLINE(bugprone-unchecked-optional-access): set where the caller comes from
            context_.linear(context_.normalized(first_token(hidden), *head.norm), head.dense, 1, "image_embeds"),
            head.dense.out);
      case ImageHeadKind::attention_pooling:
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): set where the caller comes from
        return output(attention_pooled(hidden, *head.attention), hidden_size());
      case ImageHeadKind::classification:
        return output(context_.linear(classified(hidden), head.dense, 1, "logits"), head.dense.out);
    }
  }

  std::string classified(const std::string& hidden) {
    const std::string first = first_token(hidden);
    if (!model_.head.with_mean_of_patches) return first;
    const std::string patches = context_.node(
        "Slice",
        {hidden, context_.list({prefix_count()}), context_.list({prefix_count() + patch_count()}), context_.list({1})});
    const std::string mean =
        context_.node("ReduceMean", {patches, context_.list({1})}, {{"keepdims", std::int64_t{0}}});
    return context_.node("Concat", {first, mean}, {{"axis", std::int64_t{1}}});
  }

  // The query of the probe is a constant: [1, heads, 1, head size], with the scale of the scores.
  std::string probe_query(const AttentionPooling& pooling) {
    const auto hidden = static_cast<std::size_t>(hidden_size());
    const std::vector<float> probe = floats(pooling.probe, 1, hidden_size());
    const std::vector<float> weight = context_.floats(pooling.in_weight, {3 * hidden_size(), hidden_size()});
    const std::vector<float> bias = context_.floats(pooling.in_bias, {3 * hidden_size()});
    const double scale = 1 / std::sqrt(static_cast<double>(model_.transformer.head_size));
    std::vector<float> query(hidden);
    for (std::size_t i = 0; i < hidden; ++i) {
      double sum = bias[i];
      for (std::size_t j = 0; j < hidden; ++j) {
        sum += static_cast<double>(weight[i * hidden + j]) * static_cast<double>(probe[j]);
      }
      query[i] = static_cast<float>(sum * scale);
    }
    return context_.graph().floats(pooling.probe, query,
                                   {1, model_.transformer.heads, 1, model_.transformer.head_size});
  }

  std::string attention_pooled(const std::string& tokens, const AttentionPooling& pooling) {
    const std::int64_t hidden = hidden_size();
    const auto projected = [&](std::int64_t part, std::vector<std::int64_t> order) {
      const Linear linear{.weight = pooling.in_weight,
                          .bias = pooling.in_bias,
                          .in = hidden,
                          .out = hidden,
                          .first_row = part * hidden,
                          .stored_rows = 3 * hidden};
      const std::string split =
          context_.node("Reshape", {context_.linear(tokens, linear),
                                    context_.list({0, 0, model_.transformer.heads, model_.transformer.head_size})});
      return context_.node("Transpose", {split}, {{"perm", std::move(order)}});
    };
    const std::string keys = projected(1, {0, 2, 3, 1});
    const std::string values = projected(2, {0, 2, 1, 3});
    const std::string scores = context_.node("MatMul", {probe_query(pooling), keys});
    const std::string shares = context_.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string mixed = context_.node("MatMul", {shares, values});  // [batch, heads, 1, head size]
    const std::string joined = context_.node("Reshape", {mixed, context_.list({0, hidden})});
    const std::string attended = context_.linear(joined, pooling.out);
    const std::string inner =
        context_.activated(context_.linear(context_.normalized(attended, pooling.norm), pooling.feed_forward.up),
                           pooling.feed_forward.activation);
    return context_.node("Add", {attended, context_.linear(inner, pooling.feed_forward.down)}, {}, "pooler_output");
  }

  GraphContext context_;
  const ImageArchitecture& model_;
  const image::Size size_;
};

// [batch, hidden]: the hidden state of the token that stands for the text.
std::string text_token(GraphContext& context, const TextTowerHead& head, const std::string& hidden) {
  if (!head.eos_token) {
    const std::string last =
        context.node("Slice", {hidden, context.list({-1}), context.list({INT64_MAX}), context.list({1})});
    return context.node("Squeeze", {last, context.list({1})});
  }
  std::string rating = "input_ids";
  if (!head.is_highest_token) rating = context.node("Equal", {rating, context.list({*head.eos_token})});
  rating = context.node("Cast", {rating}, {{"to", type_int32}});
  const std::string index =
      context.node("ArgMax", {rating}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  return context.node("GatherND", {hidden, index}, {{"batch_dims", std::int64_t{1}}});
}

}  // namespace

std::set<std::string> write_image_model(const checkpoint::Weights& weights, const ImageArchitecture& model,
                                        image::Size size, const std::filesystem::path& file) {
  return ImageWriter(weights, model, size).write(file);
}

std::set<std::string> write_text_tower(const checkpoint::Weights& weights, const TextTowerArchitecture& tower,
                                       const std::filesystem::path& file) {
  GraphContext context(weights);
  const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"};
  context.graph().input("input_ids", ElementType::int64, tokens);
  if (tower.transformer.is_masked) context.graph().input("attention_mask", ElementType::int64, tokens);
  const std::string hidden = write_layers(context, tower.transformer, write_embeddings(context, tower.embeddings), {});
  const std::string vector =
      context.linear(text_token(context, tower.head, hidden), tower.head.dense, 1, tower.head.output);
  const std::array<onnx::WrittenSize, 2> sizes{"batch", tower.head.dense.out};
  context.graph().output(vector, ElementType::float32, sizes);
  if (!file.empty()) context.graph().write(file, opset, ir_version);
  return context.used();
}

}  // namespace gpux::importer
