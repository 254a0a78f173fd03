#include "onnx/model_file.h"

#include <limits>
#include <string>
#include <unordered_set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "onnx/external_data.h"
#include "onnx/file_kind.h"
#include "onnx/limits.h"
#include "onnx/message.h"
#include "onnx/schema.h"
#include "onnx/tensor_header.h"
#include "onnx/text.h"
#include "onnx/value_type.h"

namespace gpux::onnx {
namespace {

constexpr std::int64_t first_ir_with_overridable_initializers = 4;
constexpr std::int64_t first_ir_with_opsets = 3;

std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

/// For use before one is added.
void refuse_more_than(std::size_t most, const auto& entries, const Message& message, std::string_view of_what) {
  if (entries.size() >= most) message.malformed(fmt::format("there are more than {} {}", most, of_what));
}

/// Fills a ModelInfo in one walk over the model.
class Inspector {
 public:
  explicit Inspector(const std::filesystem::path& path) : external_(path) {}

  ModelInfo inspect(std::string_view content) {
    Message model(content);
    std::string_view graph;
    bool has_graph = false;
    while (model.next()) {
      switch (model.field()) {
        case schema::model::ir_version:
          info_.ir_version = model.integer();
          break;
        case schema::model::graph:
          if (has_graph) model.malformed("there are two graphs");
          graph = model.bytes();
          has_graph = true;
          break;
        case schema::model::functions:
          read_function(model.message());
          break;
        default:
          read_description(model);
          break;
      }
    }
    if (!has_graph) model.malformed("there is no graph");
    if (info_.ir_version <= 0) model.malformed("there is no IR version");
    if (info_.opsets.empty() && info_.ir_version >= first_ir_with_opsets) model.malformed("there is no opset_import");
    if (info_.opsets.empty()) info_.opsets.emplace_back("", 1);
    read_graph(Message(graph), 0);
    read_signature(Message(graph));
    info_.external_files = external_.files();
    return std::move(info_);
  }

 private:
  void read_description(const Message& model) {
    switch (model.field()) {
      case schema::model::producer_name:
        info_.producer_name = to_utf8(model.bytes());
        break;
      case schema::model::producer_version:
        info_.producer_version = to_utf8(model.bytes());
        break;
      case schema::model::domain:
        info_.domain = to_utf8(model.bytes());
        break;
      case schema::model::model_version:
        info_.model_version = model.integer();
        break;
      case schema::model::doc_string:
        info_.description = to_utf8(model.bytes());
        break;
      case schema::model::opset_import:
        read_opset(model.message());
        break;
      case schema::model::metadata_props:
        read_metadata(model.message());
        break;
      default:
        break;
    }
  }

  void read_opset(Message opset) {
    std::string domain;
    std::int64_t version = 0;
    while (opset.next()) {
      if (opset.field() == schema::opset::domain) domain = to_utf8(canonical_domain(opset.bytes()));
      if (opset.field() == schema::opset::version) version = opset.integer();
    }
    refuse_more_than(max_distinct_names, info_.opsets, opset, "opset imports");
    info_.opsets.emplace_back(std::move(domain), version);
  }

  void read_metadata(Message entry) {
    std::pair<std::string, std::string> pair;
    while (entry.next()) {
      if (entry.field() == schema::entry::key) pair.first = to_utf8(entry.bytes());
      if (entry.field() == schema::entry::value) pair.second = to_utf8(entry.bytes());
    }
    refuse_more_than(max_distinct_names, info_.metadata, entry, "metadata properties");
    info_.metadata.push_back(std::move(pair));
  }

  void read_function(Message function) {
    while (function.next()) {
      if (function.field() == schema::function::node) read_node(function.message(), 0);
      if (function.field() == schema::function::attribute_proto) read_attribute(function.message(), 0);
    }
  }

  void read_graph(Message graph, unsigned depth) {
    while (graph.next()) {
      if (depth > deepest_nesting) {
        graph.malformed(fmt::format("subgraphs are nested more than {} deep", deepest_nesting));
      }
      switch (graph.field()) {
        case schema::graph::node:
          read_node(graph.message(), depth);
          break;
        case schema::graph::initializer: {
          const std::string_view name = count_parameters(graph.message());
          if (depth == 0) initializers_.insert(name);
          break;
        }
        case schema::graph::sparse_initializer: {
          const std::string_view name = count_sparse_parameters(graph.message());
          if (depth == 0) initializers_.insert(name);
          break;
        }
        case schema::graph::name:
          if (depth == 0) info_.graph_name = to_utf8(graph.bytes());
          break;
        default:
          break;
      }
    }
  }

  void read_node(Message node, unsigned depth) {
    std::string_view operator_name;
    std::string_view domain;
    std::string_view name;
    while (node.next()) {
      switch (node.field()) {
        case schema::node::op_type:
          operator_name = node.bytes();
          break;
        case schema::node::domain:
          domain = canonical_domain(node.bytes());
          break;
        case schema::node::name:
          name = node.bytes();
          break;
        case schema::node::attribute:
          read_attribute(node.message(), depth);
          break;
        default:
          break;
      }
    }
    if (operator_name.empty()) node.malformed(fmt::format("node {} has no operator", quote(name)));
    count_operator(node, domain, operator_name);
  }

  void count_operator(const Message& node, std::string_view domain, std::string_view name) {
    std::string key = domain.empty() ? to_utf8(name) : fmt::format("{}::{}", to_utf8(domain), to_utf8(name));
    refuse_more_than(max_distinct_names, info_.operators, node, "different operators");
    ++info_.operators[std::move(key)];
    ++info_.node_count;
  }

  void read_attribute(Message attribute, unsigned depth) {
    while (attribute.next()) {
      switch (attribute.field()) {
        case schema::attribute::g:
        case schema::attribute::graphs:
          read_graph(attribute.message(), depth + 1);
          break;
        case schema::attribute::t:
        case schema::attribute::tensors:
          read_tensor(attribute.message());
          break;
        case schema::attribute::sparse_tensor:
        case schema::attribute::sparse_tensors:
          read_sparse_tensor(attribute.message());
          break;
        default:
          break;
      }
    }
  }

  TensorHeader read_tensor(const Message& message) {
    TensorHeader tensor = read_tensor_header(message);
    if (tensor.external) external_.add(tensor.name, *tensor.external, tensor.byte_size);
    return tensor;
  }

  /// Its stored values.
  TensorHeader read_sparse_tensor(Message message) {
    TensorHeader values;
    while (message.next()) {
      if (message.field() == schema::sparse_tensor::values) values = read_tensor(message.message());
      if (message.field() == schema::sparse_tensor::indices) read_tensor(message.message());
    }
    return values;
  }

  /// Both return the name.
  std::string_view count_parameters(const Message& message) { return count(message, read_tensor(message)); }

  std::string_view count_sparse_parameters(const Message& message) {
    return count(message, read_sparse_tensor(message));
  }

  std::string_view count(const Message& message, const TensorHeader& tensor) {
    if (tensor.type == ElementType::undefined) {
      message.malformed(fmt::format("initializer {} has no element type", quote(tensor.name)));
    }
    const auto elements = static_cast<std::uint64_t>(tensor.element_count);
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max() / 2;
    if (info_.parameter_count > most - elements || info_.parameter_bytes > most - tensor.byte_size) {
      message.malformed("there are more parameters than 64 bits count");
    }
    info_.parameter_count += elements;
    info_.parameter_bytes += tensor.byte_size;
    info_.parameter_types[std::string(to_string(tensor.type))] += elements;
    return tensor.name;
  }

  void read_signature(Message graph) {
    while (graph.next()) {
      if (graph.field() == schema::graph::input) {
        SignatureEntry input = read_entry(graph.message(), true);
        const bool has_default = initializers_.contains(input.name);
        if (has_default && info_.ir_version < first_ir_with_overridable_initializers) continue;
        input.required = !has_default && input.type.kind != ValueKind::optional;
        append(graph, info_.signature.inputs, std::move(input));
      } else if (graph.field() == schema::graph::output) {
        append(graph, info_.signature.outputs, read_entry(graph.message(), false));
      }
    }
    refuse_repeated_names(graph, "inputs", info_.signature.inputs);
    refuse_repeated_names(graph, "outputs", info_.signature.outputs);
    if (info_.signature.outputs.empty()) graph.malformed("the graph has no output");
  }

  static void append(const Message& graph, std::vector<SignatureEntry>& entries, SignatureEntry entry) {
    refuse_more_than(max_inputs_or_outputs, entries, graph, "inputs or outputs");
    entries.push_back(std::move(entry));
  }

  static SignatureEntry read_entry(Message message, bool needs_type) {
    SignatureEntry entry;
    bool has_type = false;
    while (message.next()) {
      if (message.field() == schema::value_info::name) {
        if (!is_utf8(message.bytes())) message.malformed(fmt::format("{} is no name", quote(message.bytes())));
        entry.name = std::string(message.bytes());
      } else if (message.field() == schema::value_info::type) {
        entry.type = read_type(message.message());
        has_type = true;
      } else if (message.field() == schema::value_info::doc_string) {
        entry.description = to_utf8(message.bytes());
      }
    }
    if (entry.name.empty()) message.malformed("an input or output has no name");
    // An output's type may be left to inference.
    if (needs_type && !has_type) message.malformed(fmt::format("input {} has no type", quote(entry.name)));
    return entry;
  }

  static void refuse_repeated_names(const Message& graph, std::string_view which,
                                    const std::vector<SignatureEntry>& entries) {
    std::unordered_set<std::string_view> names;
    for (const SignatureEntry& entry : entries) {
      if (!names.insert(entry.name).second) {
        graph.malformed(fmt::format("two {} have the name {}", which, quote(entry.name)));
      }
    }
  }

  ModelInfo info_{.version = "1.0.0"};
  ExternalFiles external_;
  std::unordered_set<std::string_view> initializers_;  ///< of the main graph
};

Error refusal(std::string_view content, const std::filesystem::path& path, const MalformedMessage& reason) {
  if (content.empty()) {
    return {ErrorCode::invalid_model, format_message("'{}' is empty, not an ONNX model", file_at(path))};
  }
  if (const std::string_view kind = looks_like(content); !kind.empty()) {
    return {ErrorCode::invalid_model,
            format_message("'{}' is not an ONNX model: it looks like {}", file_at(path), kind)};
  }
  return {ErrorCode::invalid_model,
          format_message("'{}' is not an ONNX model, or it is cut off or damaged: {} (at byte {} of {})", file_at(path),
                         reason.what(), reason.where() - content.data(), content.size())};
}

}  // namespace

ModelInfo inspect(std::string_view content, const std::filesystem::path& path) {
  try {
    ModelInfo info = Inspector(path).inspect(content);
    info.name = to_utf8(path.stem().string());
    info.path = path;
    info.size_bytes = content.size();
    return info;
  } catch (const MalformedMessage& reason) {
    throw refusal(content, path, reason);
  } catch (const Error& error) {
    throw error.within({"'", file_at(path), "'"});
  }
}

ModelInfo inspect(const std::filesystem::path& path) {
  MappedFile file;
  try {
    file = MappedFile(path);
  } catch (const Error& error) {
    // A folder or device in the place of a model is no fault of the data that the model is given.
    if (error.code() != ErrorCode::invalid_input) throw;
    throw error.as(ErrorCode::invalid_model);
  }
  return inspect(file.text(), path);
}

}  // namespace gpux::onnx
