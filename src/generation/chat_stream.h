#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generation/answer_parser.h"
#include "generation/chat_prompt.h"
#include "generation/engine.h"
#include "gpux/chat.h"

namespace gpux::generation {

/// A conversation as the engine takes it, and how its answer is read.
struct ChatRequest {
  EngineRequest request;
  AnswerSettings answer;
};

/// Makes the prompt, and has the text show the special tokens that separate the parts of the answer.
/// Errors of ChatPrompt::text(), prompt_tokens(), functions_of().
ChatRequest chat_request(const text::Tokenizer& tokenizer, const ChatPrompt& prompt,
                         std::span<const ChatMessage> messages, const ChatOptions& options,
                         GenerationSettings settings);

/// The names of the functions in ChatOptions::tools. Error invalid_input: an element is no function.
std::vector<std::string> functions_of(std::string_view tools);

/// Appends a part to the message that it is of.
void append(ChatMessage& message, const ChatDelta& delta);

/// An answer whose parts are taken on another thread than the engine's.
class ChatDeltas {
 public:
  /// Submits the request. The engine must outlive this. Errors of Engine::submit().
  ChatDeltas(Engine& engine, ChatRequest request);

  /// Waits for the next part; empty after the last one. Errors of the request.
  std::optional<ChatDelta> next();
  void cancel();

  /// What next() has given so far.
  [[nodiscard]] const ChatMessage& message() const noexcept { return completion_.message; }

  /// Null until next() gave nothing.
  [[nodiscard]] const ChatCompletion* completion() const noexcept;

 private:
  PieceStream pieces_;
  AnswerParser parser_;
  std::deque<ChatDelta> deltas_;
  ChatCompletion completion_;
  bool has_ended_ = false, was_taken_ = false;
};

/// Submits the request and waits for its end. As generate().
ChatCompletion chat(Engine& engine, ChatRequest request, const Generator::ChatSink& sink = {});

}  // namespace gpux::generation
