#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "generation/chat_prompt.h"
#include "gpux/error.h"

namespace gpux::generation {

/// How a model takes conversations: what makes prompts of them, or why nothing does. A model without a chat template,
/// or with one that cannot be used, still continues texts. Copies share the templates.
class ModelChat {
 public:
  /// A model without a chat template.
  ModelChat();

  /// Reads the chat templates in the folder with read_chat_templates(). Does not throw their errors: problem() has
  /// them.
  explicit ModelChat(const std::filesystem::path& folder);

  /// Renders conversations as prompts; null if the model takes none.
  [[nodiscard]] const ChatPrompt* prompt() const noexcept { return prompt_.get(); }

  /// prompt(), or throws problem() if there is none.
  [[nodiscard]] const ChatPrompt& require_prompt() const;

  /// Why there is no prompt(); empty where there is one. Error invalid_model: there is no template, or none that can be
  /// used.
  [[nodiscard]] const std::optional<Error>& problem() const noexcept { return problem_; }

  /// Whether there is a template, of whatever use.
  [[nodiscard]] bool has_template() const noexcept { return has_template_; }

 private:
  std::shared_ptr<const ChatPrompt> prompt_;
  std::optional<Error> problem_;
  bool has_template_ = false;
};

}  // namespace gpux::generation
