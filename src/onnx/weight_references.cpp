#include "onnx/weight_references.h"

#include <cstdint>
#include <string_view>

#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "onnx/message.h"
#include "onnx/schema.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {
namespace {

constexpr std::uint64_t smallest_tensor_bytes = 4096;  // a page: a mapping takes at least one
constexpr std::uint64_t smallest_model_bytes = std::uint64_t{1} << 20;

bool has_whole_bytes(ElementType type) {
  switch (type) {
    case ElementType::float32:
    case ElementType::float64:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::int32:
    case ElementType::int64:
      return true;
    default:
      return false;
  }
}

void add_entry(protozero::pbf_writer& tensor, std::string_view key, const std::string& value) {
  protozero::pbf_writer entry(tensor, schema::tensor::external_data);
  entry.add_bytes(schema::entry::key, key.data(), key.size());
  entry.add_string(schema::entry::value, value);
}

// Copies a model's fields, with references in place of data.
class Rewriter {
 public:
  Rewriter(std::string_view content, std::string location) : content_(content), location_(std::move(location)) {}

  std::string model() {
    std::string out;
    Message model(content_);
    while (model.next()) {
      if (model.field() == schema::model::graph) {
        const std::string graph = graph_of(model.message());
        protozero::pbf_writer(out).add_message(schema::model::graph, graph);
      } else {
        out += model.raw();
      }
    }
    return out;
  }

  [[nodiscard]] std::uint64_t referenced_bytes() const noexcept { return referenced_bytes_; }

 private:
  std::string graph_of(Message graph) {
    std::string out;
    while (graph.next()) {
      if (graph.field() != schema::graph::initializer || !is_large(graph.message())) {
        out += graph.raw();
        continue;
      }
      const std::string tensor = tensor_of(graph.message());
      protozero::pbf_writer(out).add_message(schema::graph::initializer, tensor);
    }
    return out;
  }

  static bool is_large(const Message& tensor) {
    const TensorHeader header = read_tensor_header(tensor);
    return header.raw_data && header.raw_data->size() >= smallest_tensor_bytes && has_whole_bytes(header.type);
  }

  std::string tensor_of(Message tensor) {
    std::string out;
    std::string_view data;
    while (tensor.next()) {
      if (tensor.field() == schema::tensor::raw_data) {
        data = tensor.bytes();
      } else {
        out += tensor.raw();
      }
    }
    protozero::pbf_writer writer(out);
    add_entry(writer, "location", location_);
    add_entry(writer, "offset", std::to_string(data.data() - content_.data()));
    add_entry(writer, "length", std::to_string(data.size()));
    constexpr std::int32_t external = 1;
    writer.add_enum(schema::tensor::data_location, external);
    referenced_bytes_ += data.size();
    return out;
  }

  std::string_view content_;
  std::string location_;
  std::uint64_t referenced_bytes_ = 0;
};

}  // namespace

std::optional<std::string> with_weight_references(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() < smallest_model_bytes) return std::nullopt;
  Rewriter rewriter(file.text(), path.filename().string());
  try {
    std::string model = rewriter.model();
    if (rewriter.referenced_bytes() < smallest_model_bytes) return std::nullopt;
    return model;
  } catch (const MalformedMessage&) {
    return std::nullopt;
  }
}

}  // namespace gpux::onnx
