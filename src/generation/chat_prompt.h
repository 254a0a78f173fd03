#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpux/chat.h"
#include "text/chat_template.h"

namespace gpux::generation {

/// The chat templates of a model, as texts, and the special tokens that they name.
struct ChatTemplateTexts {
  std::string usual;     ///< for conversations without tools, and with tools where there is no other
  std::string tool_use;  ///< for conversations with tools; empty: none
  std::map<std::string, std::string> special_tokens;  ///< "bos_token", "eos_token", …
};

/// Reads the chat templates and special tokens in a model folder: chat_template.jinja,
/// additional_chat_templates/tool_use.jinja, else `chat_template` in tokenizer_config.json (a text, or a list of named
/// ones: default and tool_use), else chat_template.json; tokens of tokenizer_config.json and special_tokens_map.json:
/// the files that transformers reads, in its order. Empty where the model has no template. Errors invalid_model (a file
/// that is not what it should be), storage.
std::optional<ChatTemplateTexts> read_chat_templates(const std::filesystem::path& folder);

/// The special tokens that ChatTemplateTexts has, also where there is no template. Errors as above.
std::map<std::string, std::string> read_special_tokens(const std::filesystem::path& folder);

/// Whether the model is shown the tools.
[[nodiscard]] inline bool offers_tools(const ChatOptions& options) noexcept {
  return !options.tools.empty() && options.tool_choice != ToolChoice::none;
}

/// Turns conversations into prompts. May be used by several threads at once; copies share the templates.
class ChatPrompt {
 public:
  /// Error invalid_model: a template cannot be used.
  explicit ChatPrompt(ChatTemplateTexts texts);

  /// The prompt, UTF-8, as transformers' apply_chat_template() makes it. It has its special tokens: it must be
  /// tokenized without adding special tokens (EncodeOptions::special_tokens = false), or the text would begin with two
  /// of them.
  ///
  /// Reasoning reaches the template as reasoning_content and thinking. `now` is for templates that write the date.
  /// Errors invalid_input (no messages; what the template refuses; tools, template_values or arguments that are not the
  /// JSON they should be; tools that the template does not show to the model; a last message
  /// that cannot be continued), of ChatTemplate::render().
  [[nodiscard]] std::string text(std::span<const ChatMessage> messages, const ChatOptions& options = {},
                                 std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;

  /// The template that text() uses: what answer_format_of() reads.
  [[nodiscard]] const std::string& template_text(bool has_tools) const noexcept;

  /// Whether a message of a user and tools give another prompt than the message alone.
  [[nodiscard]] bool shows_tools() const noexcept { return shows_tools_; }

 private:
  [[nodiscard]] const text::ChatTemplate& tool_template() const noexcept { return tool_use_ ? *tool_use_ : usual_; }

  [[nodiscard]] std::string rendered(std::span<const ChatMessage> messages, const ChatOptions& options,
                                     const text::ChatTemplate& chosen, bool has_tools,
                                     std::chrono::system_clock::time_point now) const;
  [[nodiscard]] std::string continued(std::span<const ChatMessage> messages, const ChatOptions& options,
                                      const text::ChatTemplate& chosen, bool has_tools,
                                      std::chrono::system_clock::time_point now) const;
  [[nodiscard]] bool is_shown(std::string_view text_with_tools, std::span<const ChatMessage> messages,
                              const ChatOptions& options, std::chrono::system_clock::time_point now) const;
  [[nodiscard]] bool find_tools() const;

  ChatTemplateTexts texts_;
  text::ChatTemplate usual_;
  std::optional<text::ChatTemplate> tool_use_;
  bool shows_tools_ = false;
};

}  // namespace gpux::generation
