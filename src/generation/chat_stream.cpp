#include "generation/chat_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpux/error.h"

namespace gpux::generation {
void append(ChatMessage& message, const ChatDelta& delta) {
  switch (delta.kind) {
    case ChatDelta::Kind::content:
      message.content += delta.text;
      break;
    case ChatDelta::Kind::reasoning:
      message.reasoning += delta.text;
      break;
    case ChatDelta::Kind::tool_call:
      message.tool_calls.push_back({.id = delta.id, .name = delta.name, .arguments = {}});
      break;
    case ChatDelta::Kind::arguments:
      message.tool_calls.at(delta.index).arguments += delta.text;
      break;
  }
}

ChatDeltas::ChatDeltas(Engine& engine, ChatPlan plan)
    : pieces_(engine, std::move(plan.request)), parser_(std::move(plan.answer)) {
  completion_.message.role = "assistant";
}

std::optional<ChatDelta> ChatDeltas::next() {
  while (deltas_.empty() && !has_ended_) {
    const std::optional<GeneratedPiece> piece = pieces_.next();
    has_ended_ = !piece;
    std::ranges::move(piece ? parser_.add(piece->text) : parser_.finish(), std::back_inserter(deltas_));
  }
  if (deltas_.empty()) {
    if (!was_taken_) completion_.completion = *pieces_.completion();
    was_taken_ = true;
    return std::nullopt;
  }
  ChatDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  append(completion_.message, delta);
  return delta;
}

void ChatDeltas::cancel() {
  pieces_.cancel();
}

const ChatCompletion* ChatDeltas::completion() const noexcept {
  return was_taken_ ? &completion_ : nullptr;
}

ChatCompletion chat(Engine& engine, ChatPlan plan, const Generator::ChatSink& sink) {
  ChatDeltas deltas(engine, std::move(plan));
  while (const std::optional<ChatDelta> delta = deltas.next()) {
    if (!sink || sink(*delta)) continue;
    // What the engine generates until it hears of it is nobody's.
    ChatMessage message = deltas.message();
    deltas.cancel();
    try {
      while (deltas.next()) {
      }
    } catch (const Error&) {  // of what nobody wants any more
    }
    const ChatCompletion* whole = deltas.completion();
    ChatCompletion completion{.message = std::move(message), .completion = {}};
    if (whole != nullptr) completion.completion = whole->completion;
    completion.completion.reason = FinishReason::cancelled;
    return completion;
  }
  return *deltas.completion();
}

}  // namespace gpux::generation
