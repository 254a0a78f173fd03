#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::checkpoint {

/// How a query and a document become one text for a language model: a chat template of literal text and the two.
struct PairTemplate {
  enum class Slot : std::uint8_t { text, query, document };

  struct Part {
    Slot slot = Slot::text;
    std::string text;  ///< the literal text, for Slot::text
  };

  std::vector<Part> parts;  ///< up to the last slot
  std::string suffix;       ///< behind it, such as the beginning of the answer: kept where a text is truncated

  /// The text before the suffix.
  [[nodiscard]] std::string prefix(std::string_view query, std::string_view document) const;
};

/// A causal language model that scores a pair by the logits of the token that follows it: logit(true) - logit(false).
struct PairScore {
  std::int64_t true_token = 0;
  std::optional<std::int64_t> false_token;    ///< empty: the score is the logit of true_token
  std::optional<PairTemplate> pair_template;  ///< empty: the tokenizer joins the pair
};

/// A Jinja template that has the roles query and document as sentence-transformers' rerankers have them:
///   {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
///   {{ (messages | selectattr("role", "eq", "query") | first).content }}, also .content[0].text
/// with `| default("...")` for the role system, which carries the instruction; {% set NAME = … %} of such a value, and
/// {{ NAME }}. `instruction` is the system message; empty: the default counts. Whitespace as transformers renders it:
/// trim_blocks and lstrip_blocks. Empty where the template is another one. Pure.
std::optional<PairTemplate> parse_pair_template(std::string_view jinja, std::string_view instruction);

/// The prompt that default_prompt_name of config_sentence_transformers.json names; empty where it names none. Error
/// invalid_model, also where there is no such prompt.
std::string default_prompt_in(const std::filesystem::path& folder);

/// Reads modules.json with a LogitScore, and the chat template in chat_template.jinja or tokenizer_config.json. Empty
/// where no LogitScore is named. Errors invalid_model with the file's name, also for a template that is not supported.
std::optional<PairScore> read_pair_score(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
