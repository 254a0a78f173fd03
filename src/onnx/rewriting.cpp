#include "onnx/rewriting.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/format_message.h"
#include "onnx/schema.h"
#include "onnx/text.h"

namespace gpux::onnx {

ModelParts split_model(std::string_view content) {
  ModelParts parts;
  Message model(content);
  while (model.next()) {
    if (model.field() == schema::model::graph) {
      parts.graph = model.bytes();
    } else if (model.field() == schema::model::ir_version) {
      protozero::pbf_writer(parts.head)
          .add_int64(schema::model::ir_version, std::max(model.integer(), first_ir_with_overridable_initializers));
    } else {
      parts.head += model.raw();
    }
  }
  return parts;
}

void append_graph_key(std::string& head, std::string_view graph) {
  append_graph_key(head, std::uint64_t{graph.size()});
}

void append_graph_key(std::string& head, std::uint64_t graph_bytes) {
  protozero::add_varint_to_buffer(&head, (std::uint64_t{schema::model::graph} << 3) | 2);
  protozero::add_varint_to_buffer(&head, graph_bytes);
}

void require_external_files(const ModelInfo& info, const std::filesystem::path& path) {
  for (const ExternalFile& file : info.external_files) {
    if (file.present) continue;
    throw Error(ErrorCode::invalid_model, format_message("'{}' keeps weights in {}, which is not there or too short",
                                                         file_at(path), quote(file.location)));
  }
}

void require_fitting(std::uint64_t bytes, std::string_view what) {
  constexpr std::uint64_t largest = (std::uint64_t{1} << 31) - (std::uint64_t{1} << 20);  // protobuf's, and some
  if (bytes <= largest) return;
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} it would still be beyond the 2 GB that an ONNX file can hold", what));
}

void append_initializer(std::string& graph, std::string_view tensor, const TensorHeader& header, TensorData& data) {
  if (header.external) {
    const std::string bytes = data.bytes(Message(tensor), header);
    append_tensor(graph, header.name, header.type, header.shape, std::as_bytes(std::span(bytes)));
  } else {
    protozero::pbf_writer(graph).add_bytes(schema::graph::initializer, tensor.data(), tensor.size());
  }
}

Error damaged_model(const std::filesystem::path& path, const MalformedMessage& reason, std::string_view content) {
  return {ErrorCode::invalid_model, format_message("'{}' is damaged: {} (at byte {} of {})", file_at(path),
                                                   reason.what(), reason.where() - content.data(), content.size())};
}

}  // namespace gpux::onnx
