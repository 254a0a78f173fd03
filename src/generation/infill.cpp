#include "generation/infill.h"

#include <array>
#include <string>

namespace gpux::generation {
namespace {

struct InfillNames {
  std::string_view prefix, suffix, middle;  ///< middle: empty where there is none
  bool suffix_comes_first = false;
};

constexpr std::array<InfillNames, 7> formats{{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", true},
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true},
    {"[PREFIX]", "[SUFFIX]", "", true},
}};

// What these models write behind the middle: another file of the repository, or padding.
constexpr std::array<std::string_view, 9> end_names{"<|fim_pad|>",        "<|repo_name|>", "<|file_sep|>",
                                                    "<|file_separator|>", "<fim_pad>",     "<file_sep>",
                                                    "<fim-pad>",          "<repo_name>",   "<|endoftext|>"};

void append(std::vector<std::uint32_t>& prompt, const text::Tokenizer& tokenizer, std::string_view text) {
  const text::Encoding encoding = tokenizer.encode(text, {.special_tokens = false});
  prompt.insert(prompt.end(), encoding.ids().begin(), encoding.ids().end());
}

// What the tokenizer puts before a text, and not behind it.
void append_leading_tokens(std::vector<std::uint32_t>& prompt, const text::Tokenizer& tokenizer) {
  const text::Encoding encoding = tokenizer.encode("a");
  for (std::size_t i = 0; i < encoding.size() && encoding.special_tokens_mask()[i] != 0; ++i) {
    prompt.push_back(encoding.ids()[i]);
  }
}

}  // namespace

std::optional<InfillFormat> infill_format_of(const text::Tokenizer& tokenizer) {
  for (const InfillNames& names : formats) {
    const auto prefix = tokenizer.id(names.prefix), suffix = tokenizer.id(names.suffix);
    const auto middle = names.middle.empty() ? std::nullopt : tokenizer.id(names.middle);
    if (!prefix || !suffix || (!names.middle.empty() && !middle)) continue;
    InfillFormat format{
        .prefix = *prefix, .suffix = *suffix, .middle = middle, .suffix_comes_first = names.suffix_comes_first};
    for (const std::string_view name : end_names) {
      if (const auto id = tokenizer.id(name)) format.end_tokens.push_back(*id);
    }
    return format;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> infill_prompt(const text::Tokenizer& tokenizer, const InfillFormat& format,
                                         std::string_view prefix, std::string_view suffix, bool adds_special_tokens) {
  std::vector<std::uint32_t> prompt;
  if (adds_special_tokens) append_leading_tokens(prompt, tokenizer);
  const auto append_suffix = [&] {
    prompt.push_back(format.suffix);
    append(prompt, tokenizer, suffix);
  };
  if (format.suffix_comes_first) append_suffix();
  prompt.push_back(format.prefix);
  append(prompt, tokenizer, prefix);
  if (!format.suffix_comes_first) append_suffix();
  if (format.middle) prompt.push_back(*format.middle);
  return prompt;
}

}  // namespace gpux::generation
