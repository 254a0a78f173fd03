#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/generation_flags.h"
#include "cli/interrupts.h"
#include "generation/chat_stream.h"
#include "generation/engine.h"
#include "generation/model_chat.h"
#include "gpux/chat.h"
#include "model/load_settings.h"

namespace gpux::cli {

struct ChatFlags {
  std::string model, system, pull;
  std::optional<std::string> message;
  ChatOptions options;
  GenerationFlags generation;
  EngineFlags engine;
  LoadRequest load;
};

/// A model that is loaded, and a conversation with it.
class ChatSession {
 public:
  /// Says which provider runs the model. Errors of opening and loading; invalid_model: no chat template.
  ChatSession(const ChatFlags& flags, const Context& context);

  /// Adds the message and the answer to the conversation. The answer is printed as it comes, or as one line of JSON.
  /// An interrupt ends the answer; what has come of it stays. Where this throws, the conversation stays as it was.
  void answer(const std::string& text, Interrupts* interrupts = nullptr);

  /// The messages, with that of the system first, if there is one.
  [[nodiscard]] const std::vector<ChatMessage>& messages() const noexcept { return messages_; }

  void set_messages(std::vector<ChatMessage> messages) { messages_ = std::move(messages); }

  /// Sets the system message; empty: none.
  void set_system(const std::string& text);
  /// Forgets the conversation, except for the system message.
  void clear();

  [[nodiscard]] ChosenSettings& settings() noexcept { return settings_; }

  /// The last answer with its token counts and finish reason; empty before the first one.
  [[nodiscard]] const std::optional<Completion>& last() const noexcept { return last_; }

  [[nodiscard]] std::size_t context_length() const noexcept { return model_.engine->context_length(); }

  [[nodiscard]] const Context& context() const noexcept { return *context_; }

 private:
  struct Model {
    std::string name;
    generation::ModelChat chat;
    std::unique_ptr<generation::Engine> engine;
  };

  [[nodiscard]] static Model load(const ChatFlags& flags);
  void print(const ChatCompletion& completion) const;

  const Context* context_;
  ChosenSettings settings_;
  ChatOptions options_;
  Model model_;
  std::vector<ChatMessage> messages_;
  std::optional<Completion> last_;
};

}  // namespace gpux::cli
