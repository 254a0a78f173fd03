#pragma once

#include <deque>
#include <optional>

#include "generation/answer_parser.h"
#include "generation/chat_plan.h"
#include "generation/engine.h"
#include "gpux/chat.h"

namespace gpux::generation {

/// Appends a part to the message that it is of.
void append(ChatMessage& message, const ChatDelta& delta);

/// An answer whose parts are taken on another thread than the engine's.
class ChatDeltas {
 public:
  /// Submits the request. The engine must outlive this. Errors of Engine::submit().
  ChatDeltas(Engine& engine, ChatPlan plan);

  /// Waits for the next part; empty after the last one. Errors of the request.
  std::optional<ChatDelta> next();
  void cancel();

  /// The message as far as next() has returned it.
  [[nodiscard]] const ChatMessage& message() const noexcept { return completion_.message; }

  /// The finished answer; null before next() has returned the end.
  [[nodiscard]] const ChatCompletion* completion() const noexcept;

 private:
  PieceStream pieces_;
  AnswerParser parser_;
  std::deque<ChatDelta> deltas_;
  ChatCompletion completion_;
  bool has_ended_ = false, was_taken_ = false;
};

/// Submits the request and waits for its end. As generate().
ChatCompletion chat(Engine& engine, ChatPlan plan, const Generator::ChatSink& sink = {});

}  // namespace gpux::generation
