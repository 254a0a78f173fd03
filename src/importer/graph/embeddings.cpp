#include "importer/graph/embeddings.h"

#include <array>

#include "importer/graph/adapters.h"

namespace gpux::importer {
namespace {

std::string positions(GraphContext& context, const Embeddings& embeddings, const std::string& token_positions) {
  const std::string table = context.tensor(embeddings.positions, {embeddings.position_count, embeddings.size});
  if (!token_positions.empty()) return context.node("Gather", {table, token_positions});
  if (embeddings.position_start == PositionStart::zero) {
    const std::string start = context.list({0});
    const std::string end = context.sequence_length();
    return context.node("Slice", {table, start, end, context.list({0})});
  }
  // cumsum(input_ids != padding) * (input_ids != padding) + padding
  const std::string padding = context.list({embeddings.padding_token});
  const std::string is_padding = context.node("Equal", {"input_ids", padding});
  const std::string is_token = context.node("Cast", {context.node("Not", {is_padding})}, {{"to", std::int64_t{7}}});
  const std::string counted = context.node("CumSum", {is_token, context.list({1})});
  const std::string of_tokens = context.node("Mul", {counted, is_token});
  return context.node("Gather", {table, context.node("Add", {of_tokens, padding})});
}

}  // namespace

void write_text_inputs(GraphContext& context, const Embeddings& embeddings) {
  const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"};
  context.graph().input("input_ids", ElementType::int64, tokens);
  context.graph().input("attention_mask", ElementType::int64, tokens);
  if (embeddings.token_type_input) context.graph().input("token_type_ids", ElementType::int64, tokens);
}

std::string write_embeddings(GraphContext& context, const Embeddings& embeddings, const std::string& token_positions) {
  std::string sum = context.gathered(embeddings.words, {embeddings.vocabulary, embeddings.size}, "input_ids");
  if (embeddings.word_adapter) {
    const std::string added = adapted_rows(context, *embeddings.word_adapter, embeddings.vocabulary, embeddings.size);
    sum = context.node("Add", {sum, added});
  }
  if (embeddings.scale != 1) sum = context.node("Mul", {sum, context.scalar(embeddings.scale)});
  if (!embeddings.token_types.empty()) {
    const std::string& name = embeddings.token_types;
    const Shape shape{embeddings.token_type_count, embeddings.size};
    if (embeddings.token_type_input) {
      const std::string table = context.tensor(name, shape);
      sum = context.node("Add", {sum, context.node("Gather", {table, "token_type_ids"})});
    } else if (embeddings.token_type_count == 1) {
      sum = context.node("Add", {sum, context.tensor(name, shape)});
    } else {
      const std::string first =
          context.node("Slice", {context.tensor(name, shape), context.list({0}), context.list({1}), context.list({0})});
      sum = context.node("Add", {sum, first});
    }
    if (embeddings.token_type_adapter) {
      const std::string added =
          adapted_first_row(context, *embeddings.token_type_adapter, embeddings.token_type_count, embeddings.size);
      sum = context.node("Add", {sum, added});
    }
  }
  if (!embeddings.positions.empty()) {
    sum = context.node("Add", {sum, positions(context, embeddings, token_positions)});
  }
  if (embeddings.norm) sum = context.normalized(sum, *embeddings.norm);
  if (embeddings.projection) sum = context.linear(sum, *embeddings.projection);
  return sum;
}

}  // namespace gpux::importer
