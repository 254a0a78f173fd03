#include "onnx/context_files.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "gpux/error.h"
#include "onnx/external_data.h"
#include "onnx/limits.h"
#include "onnx/message.h"
#include "onnx/node_text.h"
#include "onnx/schema.h"
#include "onnx/text.h"

namespace gpux::onnx {
namespace {

std::string_view text_attribute(const NodeText& node, std::string_view name) {
  Message attribute = attribute_of(node, name);
  std::string_view text;
  while (attribute.next()) {
    if (attribute.field() == schema::attribute::s) text = attribute.bytes();
  }
  return text;
}

class ContextFiles {
 public:
  explicit ContextFiles(const std::filesystem::path& path) : beside_(path) {}

  void add_graph(Message graph, unsigned depth) {
    if (depth > deepest_nesting)
      graph.malformed(fmt::format("subgraphs are nested more than {} deep", deepest_nesting));
    for_each_node(graph, [&](const NodeText& node) {
      if (node.type == "EPContext") add_node(node);
      for_each_subgraph(node, [&](const Message& inner) { add_graph(inner, depth + 1); });
    });
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(locations_); }

 private:
  void add_node(const NodeText& node) {
    if (integer_attribute(node, "embed_mode", 1) == 0) add(text_attribute(node, "ep_cache_context"));
    add(text_attribute(node, "onnx_model_filename"));
  }

  void add(std::string_view location) {
    if (location.empty() || !beside_.is_inside_folder(location)) return;
    if (std::ranges::find(locations_, location) != locations_.end()) return;
    if (locations_.size() < max_distinct_names) locations_.emplace_back(location);
  }

  ExternalFiles beside_;
  std::vector<std::string> locations_;
};

}  // namespace

std::vector<std::string> context_files(const std::filesystem::path& path) {
  const MappedFile file(path);
  ContextFiles files(path);
  try {
    Message model(file.text());
    while (model.next()) {
      if (model.field() == schema::model::graph) files.add_graph(model.message(), 0);
    }
  } catch (const MalformedMessage& reason) {
    throw Error(ErrorCode::invalid_model, format_message("'{}' is damaged: {}", file_at(path), reason.what()));
  }
  return files.take();
}

}  // namespace gpux::onnx
