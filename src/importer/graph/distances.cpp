#include "importer/graph/distances.h"

#include <fmt/format.h>

namespace gpux::importer {

std::string token_count(GraphContext& context) {
  return context.once("token count", [&] {
    const std::string length = context.sequence_length();
    return context.node("Squeeze", {length, context.list({0})});
  });
}

std::string distances(GraphContext& context) {
  return context.once("distances", [&] {
    const std::string zero = context.graph().integer(0);
    const std::string count = token_count(context);
    const std::string positions = context.node("Range", {zero, count, context.graph().integer(1)});
    const std::string keys = context.node("Unsqueeze", {positions, context.list({0})});
    return context.node("Sub", {keys, context.node("Unsqueeze", {positions, context.list({1})})});
  });
}

std::string distance_index(GraphContext& context, std::int64_t most) {
  return context.once(fmt::format("distance index {}", most), [&] {
    const std::string distance = distances(context);
    const std::string least = context.graph().integer(-most);
    const std::string clipped = context.node("Clip", {distance, least, context.graph().integer(most)});
    return context.node("Add", {clipped, context.graph().integer(most)});
  });
}

}  // namespace gpux::importer
