#include "importer/graph/head_graph.h"

#include <array>

#include "importer/graph/pooling_graph.h"

namespace gpux::importer {
namespace {

void answer_positions(GraphContext& context, const std::string& both) {
  const std::array<onnx::WrittenSize, 2> sizes{"batch", "sequence"};
  for (const std::int64_t column : {0, 1}) {
    const std::string start = context.list({column});
    const std::string end = context.list({column + 1});
    const std::string one = context.node("Slice", {both, start, end, context.list({2})});
    context.graph().output(
        context.node("Squeeze", {one, context.list({2})}, {}, column == 0 ? "start_logits" : "end_logits"),
        ElementType::float32, sizes);
  }
}

}  // namespace

void write_head(GraphContext& context, const Head& head, const std::string& hidden) {
  std::string input = head.kind == HeadKind::classification ? pooled(context, hidden, head.pooling) : hidden;
  if (head.dense) input = context.activated(context.linear(input, *head.dense), head.activation);
  if (head.norm) input = context.normalized(input, *head.norm);
  if (head.kind == HeadKind::question_answering) {
    answer_positions(context, context.linear(input, head.out));
    return;
  }
  const std::string logits = context.linear(input, head.out, 1, "logits");
  if (head.kind == HeadKind::token_classification) {
    const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", head.out.out};
    context.graph().output(logits, ElementType::float32, sizes);
  } else {
    const std::array<onnx::WrittenSize, 2> sizes{"batch", head.out.out};
    context.graph().output(logits, ElementType::float32, sizes);
  }
}

}  // namespace gpux::importer
