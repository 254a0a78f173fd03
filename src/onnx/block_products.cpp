#include "onnx/block_products.h"

#include <algorithm>

#include "onnx/node_text.h"
#include "onnx/schema.h"

namespace gpux::onnx {

BlockProducts block_products(std::string_view content, std::int64_t vocabulary) {
  BlockProducts products;
  for (Message model(content); model.next();) {
    if (model.field() != schema::model::graph) continue;
    for_each_node(model.message(), [&](const NodeText& node) {
      if (node.type != "MatMulNBits" || node.domain != "com.microsoft") return;
      const std::int64_t inner = integer_attribute(node, "K", 0), columns = integer_attribute(node, "N", 0);
      const auto own = static_cast<std::uint64_t>(std::max<std::int64_t>(inner, 0)) *
                       static_cast<std::uint64_t>(std::max<std::int64_t>(columns, 0));
      (columns == vocabulary ? products.head : products.layers) += own;
    });
  }
  return products;
}

}  // namespace gpux::onnx
