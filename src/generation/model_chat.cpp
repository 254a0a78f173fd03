#include "generation/model_chat.h"

#include <utility>

#include "base/format_message.h"

namespace gpux::generation {

ModelChat::ModelChat()
    : problem_(Error(ErrorCode::invalid_model,
                     "the model has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json), "
                     "and takes no messages: 'gpux generate' and Generator::generate() continue texts with it; to "
                     "chat, write its template into chat_template.jinja")) {}

ModelChat::ModelChat(const std::filesystem::path& folder) : ModelChat() {
  try {
    std::optional<ChatTemplateTexts> texts = read_chat_templates(folder);
    if (!texts) return;
    has_template_ = true;
    prompt_ = std::make_shared<const ChatPrompt>(*std::move(texts));
    problem_.reset();
  } catch (const Error& error) {
    problem_ = has_template_ ? error.within({file_at(folder)}) : error;
    has_template_ = true;
  }
}

const ChatPrompt& ModelChat::require_prompt() const {
  if (problem_) throw Error(*problem_);
  return *prompt_;
}

}  // namespace gpux::generation
