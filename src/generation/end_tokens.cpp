#include "generation/end_tokens.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "generation/chat_prompt.h"
#include "generation/special_markers.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

// What the template writes behind an answer; empty where it writes nothing, or does not take this conversation.
std::string text_behind_answer(const std::filesystem::path& folder) {
  constexpr std::string_view answer = "gpux answers";
  std::array<ChatMessage, 2> messages;
  messages[0].role = "user";
  messages[0].content = "gpux asks";
  messages[1].role = "assistant";
  messages[1].content = answer;
  try {
    const std::optional<ChatTemplateTexts> texts = read_chat_templates(folder);
    if (!texts) return {};
    const std::string prompt = ChatPrompt(*texts).text(messages, {.add_generation_prompt = false});
    const std::size_t at = prompt.rfind(answer);
    if (at == std::string::npos) return {};
    const std::size_t marker = prompt.find_first_not_of(" \t\r\n", at + answer.size());
    return marker == std::string::npos ? std::string() : prompt.substr(marker);
  } catch (const Error&) {  // ModelChat keeps it
    return {};
  }
}

// Some models do not have their marker as a special token.
bool is_marker(const std::string& token, const text::Tokenizer& tokenizer) {
  constexpr std::size_t shortest = 4;
  const bool has_brackets = token.size() >= shortest && token.starts_with('<') && token.ends_with('>');
  return has_brackets || is_special_token(token, tokenizer);
}

std::optional<std::uint32_t> first_marker(const std::string& text, const text::Tokenizer& tokenizer) {
  if (text.empty()) return std::nullopt;
  const text::Encoding encoding = tokenizer.encode(text, {.special_tokens = false});
  if (encoding.ids().empty()) return std::nullopt;
  const std::uint32_t first = encoding.ids().front();
  const std::optional<std::string> token = tokenizer.token(first);
  return token && text.starts_with(*token) && is_marker(*token, tokenizer) ? std::optional(first) : std::nullopt;
}

}  // namespace

std::vector<std::uint32_t> end_tokens_beside(const std::filesystem::path& folder, const text::Tokenizer& tokenizer) {
  std::vector<std::uint32_t> tokens;
  const auto add = [&](std::optional<std::uint32_t> token) {
    if (token && std::ranges::find(tokens, *token) == tokens.end()) tokens.push_back(*token);
  };
  const std::map<std::string, std::string> special = read_special_tokens(folder);
  if (const auto end = special.find("eos_token"); end != special.end()) add(tokenizer.id(end->second));
  add(first_marker(text_behind_answer(folder), tokenizer));
  return tokens;
}

}  // namespace gpux::generation
