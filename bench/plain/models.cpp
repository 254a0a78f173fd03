#include "plain/models.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace gpux::bench {
namespace {

using Dimensions = std::vector<std::int64_t>;
constexpr std::int64_t batch = free_batch;  // of that name
using Attributes = std::vector<std::pair<std::string, Dimensions>>;

/// An ONNX graph of float32 values under construction. The numbers are the field numbers of onnx.proto.
class GraphWriter {
 public:
  explicit GraphWriter(const std::string& name) : graph_(bytes_) { graph_.add_string(2, name); }

  /// Adds a node with one output and returns the output's name. An attribute with one value is an integer.
  std::string node(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes = {}) {
    const std::string output = type + std::to_string(++count_);
    protozero::pbf_writer node(graph_, 1);
    for (const std::string& input : inputs) node.add_string(1, input);
    node.add_string(2, output);
    node.add_string(3, output);
    node.add_string(4, type);
    for (const auto& [name, values] : attributes) {
      protozero::pbf_writer attribute(node, 5);
      attribute.add_string(1, name);
      if (values.size() == 1) attribute.add_int64(3, values.front());
      if (values.size() != 1) {
        for (const std::int64_t value : values) attribute.add_int64(8, value);
      }
      attribute.add_int32(20, values.size() == 1 ? 2 : 7);
    }
    return output;
  }

  /// Adds a constant of reproducible values that keep a layer's outputs about as large as its inputs.
  std::string weights(const Dimensions& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    const double fan_in = static_cast<double>(count) / static_cast<double>(shape.front());
    std::normal_distribution<float> distribution(0.0F, static_cast<float>(std::sqrt(1.0 / fan_in)));
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random_);
    const std::string name = "weights" + std::to_string(++count_);
    protozero::pbf_writer tensor(graph_, 5);
    for (const std::int64_t size : shape) tensor.add_int64(1, size);
    tensor.add_int32(2, 1);
    tensor.add_string(8, name);
    tensor.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return name;
  }

  std::string input(const std::string& name, const Dimensions& shape) {
    add_value(11, name, shape);
    return name;
  }

  /// Declares the graph's output and writes the model.
  void finish(const std::string& output, const Dimensions& shape, const std::filesystem::path& file) {
    add_value(12, output, shape);
    std::string model_bytes;
    protozero::pbf_writer model(model_bytes);
    model.add_int64(1, 8);
    model.add_message(7, bytes_);
    protozero::pbf_writer(model, 8).add_int64(2, 17);
    std::ofstream stream(file, std::ios::binary);
    stream.write(model_bytes.data(), static_cast<std::streamsize>(model_bytes.size()));
    stream.exceptions(std::ios::failbit | std::ios::badbit);
    stream.close();
  }

 private:
  void add_value(protozero::pbf_tag_type field, const std::string& name, const Dimensions& shape) {
    protozero::pbf_writer value(graph_, field);
    value.add_string(1, name);
    protozero::pbf_writer type(value, 2);
    protozero::pbf_writer tensor(type, 1);
    tensor.add_int32(1, 1);
    protozero::pbf_writer dimensions(tensor, 2);
    for (const std::int64_t size : shape) {
      protozero::pbf_writer dimension(dimensions, 1);
      if (size == batch) dimension.add_string(2, "batch");
      if (size != batch) dimension.add_int64(1, size);
    }
  }

  std::string bytes_;
  protozero::pbf_writer graph_;
  std::mt19937 random_{7};  // NOLINT(bugprone-random-generator-seed): the same model each time
  int count_ = 0;
};

std::string convolve(GraphWriter& graph, const std::string& input, std::int64_t from, std::int64_t to,
                     std::int64_t kernel, std::int64_t stride) {
  const std::int64_t pad = kernel / 2;
  return graph.node(
      "Conv", {input, graph.weights({to, from, kernel, kernel}), graph.weights({to})},
      {{"kernel_shape", {kernel, kernel}}, {"pads", {pad, pad, pad, pad}}, {"strides", {stride, stride}}});
}

std::string bottleneck(GraphWriter& graph, const std::string& input, std::int64_t from, std::int64_t width,
                       std::int64_t stride) {
  const std::string narrow = graph.node("Relu", {convolve(graph, input, from, width, 1, 1)});
  const std::string middle = graph.node("Relu", {convolve(graph, narrow, width, width, 3, stride)});
  const std::string wide = convolve(graph, middle, width, 4 * width, 1, 1);
  const bool same_shape = from == 4 * width && stride == 1;
  const std::string shortcut = same_shape ? input : convolve(graph, input, from, 4 * width, 1, stride);
  return graph.node("Relu", {graph.node("Add", {wide, shortcut})});
}

}  // namespace

void write_small_model(const std::filesystem::path& file) {
  constexpr std::int64_t width = 128;
  constexpr int layers = 23;  // 50 us on a core of 2026
  GraphWriter graph("small");
  std::string value = graph.input("x", {4, width});
  for (int layer = 0; layer < layers; ++layer) {
    value = graph.node("Tanh", {graph.node("MatMul", {value, graph.weights({width, width})})});
  }
  graph.finish(value, {4, width}, file);
}

void write_wide_model(const std::filesystem::path& file) {
  constexpr std::int64_t hidden = 8192;
  constexpr int blocks = 4;
  GraphWriter graph("wide");
  std::string value = graph.input("x", {batch, wide_model_width});
  for (int block = 0; block < blocks; ++block) {
    value = graph.node("Relu", {graph.node("MatMul", {value, graph.weights({wide_model_width, hidden})})});
    value = graph.node("MatMul", {value, graph.weights({hidden, wide_model_width})});
  }
  graph.finish(graph.node("Tanh", {value}), {batch, wide_model_width}, file);
}

void write_resnet50(const std::filesystem::path& file, std::int64_t images) {
  struct Stage {
    int blocks;
    std::int64_t width;
  };

  GraphWriter graph("resnet50");
  std::string value = graph.node("Relu", {convolve(graph, graph.input("data", {images, 3, 224, 224}), 3, 64, 7, 2)});
  value = graph.node("MaxPool", {value}, {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}, {"strides", {2, 2}}});
  std::int64_t channels = 64;
  for (const Stage stage : {Stage{3, 64}, Stage{4, 128}, Stage{6, 256}, Stage{3, 512}}) {
    for (int block = 0; block < stage.blocks; ++block) {
      value = bottleneck(graph, value, channels, stage.width, block == 0 && stage.width != 64 ? 2 : 1);
      channels = 4 * stage.width;
    }
  }
  value = graph.node("Flatten", {graph.node("GlobalAveragePool", {value})}, {{"axis", {1}}});
  value = graph.node("Gemm", {value, graph.weights({1000, channels}), graph.weights({1000})}, {{"transB", {1}}});
  graph.finish(value, {images, 1000}, file);
}

}  // namespace gpux::bench
