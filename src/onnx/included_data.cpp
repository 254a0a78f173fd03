#include "onnx/included_data.h"

#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "onnx/limits.h"
#include "onnx/message.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/tensor_data.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {
namespace {

namespace fs = std::filesystem;

/// Walks a model. What it is given to write to receives the model with the data included; without it, the walk only
/// finds out whether there is data that has to be.
class Includer {
 public:
  explicit Includer(const fs::path& path) : path_(path), data_(path) {}

  void model(Message model, std::string* out) {
    while (model.next()) {
      if (model.field() == schema::model::graph) {
        part(model, out, [&](std::string* inner) { graph(model.message(), 0, inner); });
      } else if (model.field() == schema::model::functions) {
        part(model, out, [&](std::string* inner) { function(model.message(), inner); });
      } else {
        keep(model, out);
      }
    }
  }

  [[nodiscard]] bool is_needed() const noexcept { return is_needed_; }

 private:
  static void keep(const Message& message, std::string* out) {
    if (out != nullptr) *out += message.raw();
  }

  template <typename Write>
  static void part(const Message& message, std::string* out, const Write& write) {
    if (out == nullptr) return write(nullptr);
    std::string inner;
    write(&inner);
    protozero::pbf_writer(*out).add_message(message.field(), inner);
  }

  void function(Message function, std::string* out) {
    while (function.next()) {
      if (function.field() == schema::function::node) {
        part(function, out, [&](std::string* inner) { node(function.message(), 0, inner); });
      } else if (function.field() == schema::function::attribute_proto) {
        part(function, out, [&](std::string* inner) { attribute(function.message(), 0, inner); });
      } else {
        keep(function, out);
      }
    }
  }

  void graph(Message graph, unsigned depth, std::string* out) {
    if (depth > deepest_nesting)
      graph.malformed(fmt::format("subgraphs are nested more than {} deep", deepest_nesting));
    while (graph.next()) {
      if (graph.field() == schema::graph::node) {
        part(graph, out, [&](std::string* inner) { node(graph.message(), depth, inner); });
      } else if (graph.field() == schema::graph::initializer && depth != 0) {
        part(graph, out, [&](std::string* inner) { tensor(graph.message(), inner); });
      } else if (graph.field() == schema::graph::sparse_initializer) {
        part(graph, out, [&](std::string* inner) { sparse_tensor(graph.message(), inner); });
      } else {
        keep(graph, out);
      }
    }
  }

  void node(Message node, unsigned depth, std::string* out) {
    while (node.next()) {
      if (node.field() == schema::node::attribute) {
        part(node, out, [&](std::string* inner) { attribute(node.message(), depth, inner); });
      } else {
        keep(node, out);
      }
    }
  }

  void attribute(Message attribute, unsigned depth, std::string* out) {
    while (attribute.next()) {
      switch (attribute.field()) {
        case schema::attribute::g:
        case schema::attribute::graphs:
          part(attribute, out, [&](std::string* inner) { graph(attribute.message(), depth + 1, inner); });
          break;
        case schema::attribute::t:
        case schema::attribute::tensors:
          part(attribute, out, [&](std::string* inner) { tensor(attribute.message(), inner); });
          break;
        case schema::attribute::sparse_tensor:
        case schema::attribute::sparse_tensors:
          part(attribute, out, [&](std::string* inner) { sparse_tensor(attribute.message(), inner); });
          break;
        default:
          keep(attribute, out);
      }
    }
  }

  void sparse_tensor(Message sparse, std::string* out) {
    while (sparse.next()) {
      if (sparse.field() == schema::sparse_tensor::values || sparse.field() == schema::sparse_tensor::indices) {
        part(sparse, out, [&](std::string* inner) { tensor(sparse.message(), inner); });
      } else {
        keep(sparse, out);
      }
    }
  }

  void tensor(Message tensor, std::string* out) {
    const TensorHeader header = read_tensor_header(tensor);
    if (header.external && out == nullptr) is_needed_ = is_needed_ || !is_taken(*header.external);
    if (out == nullptr) return;
    const Message whole = tensor;
    while (tensor.next()) {
      const bool is_place =
          tensor.field() == schema::tensor::external_data || tensor.field() == schema::tensor::data_location;
      if (!header.external || !is_place) keep(tensor, out);
    }
    if (header.external) protozero::pbf_writer(*out).add_bytes(schema::tensor::raw_data, data_.bytes(whole, header));
  }

  // As onnx's loader has it.
  [[nodiscard]] bool is_taken(const ExternalLocation& location) const {
    std::error_code error;
    const fs::path file = path_.parent_path() / location.path;
    return fs::is_regular_file(fs::symlink_status(file, error)) && fs::hard_link_count(file, error) == 1;
  }

  const fs::path& path_;
  TensorData data_;
  bool is_needed_ = false;
};

}  // namespace

std::optional<std::string> with_included_data(const fs::path& path) {
  const MappedFile file(path);
  Includer includer(path);
  try {
    includer.model(Message(file.text()), nullptr);
    if (!includer.is_needed()) return std::nullopt;
    std::string model;
    includer.model(Message(file.text()), &model);
    require_fitting(model.size(), "with the data of its subgraphs and attributes included");
    return model;
  } catch (const MalformedMessage&) {
    return std::nullopt;
  }
}

}  // namespace gpux::onnx
