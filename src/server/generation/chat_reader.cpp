#include "server/generation/chat_reader.h"

#include <utility>

namespace gpux::server {

void ChatReader::add(std::string_view text, AnswerDelta& delta) {
  take(parser_.add(text), delta);
}

bool ChatReader::finish(AnswerDelta& delta) {
  take(parser_.finish(), delta);
  return calls_tools_ && !parser_.has_broken_call();
}

void ChatReader::take(std::vector<generation::AnswerDelta> parts, AnswerDelta& delta) {
  using Kind = generation::AnswerDelta::Kind;
  for (generation::AnswerDelta& part : parts) {
    switch (part.kind) {
      case Kind::content:
        delta.text += part.text;
        break;
      case Kind::reasoning:
        delta.reasoning += part.text;
        break;
      case Kind::tool_call:
      case Kind::arguments: {
        calls_tools_ = true;
        const bool is_new = part.kind == Kind::tool_call;
        if (is_new || delta.tool_calls.empty() || delta.tool_calls.back().index != part.index) {
          delta.tool_calls.push_back(
              {.index = part.index, .id = std::move(part.id), .name = std::move(part.name), .arguments = {}});
        }
        delta.tool_calls.back().arguments += part.text;
        break;
      }
    }
  }
}

}  // namespace gpux::server
