// JSON schemas, regular expressions and grammars of clients: read, and walked for some tokens.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "fuzzer.h"
#include "gpux/error.h"
#include "text/token_constraint.h"
#include "text/token_words.h"

namespace {

using gpux::OutputConstraint;
using gpux::text::TokenConstraint;
using gpux::text::Tokenizer;
using gpux::text::TokenVocabulary;

constexpr std::uint32_t end_token = 2;
constexpr int steps = 24;

const TokenVocabulary& vocabulary() {
  static const TokenVocabulary made = [] {
    const std::vector<std::string> words{"{\"", "\":", "\",\"", "name", "true", "  ", "12", "日", "é", "abc", "\n"};
    const Tokenizer tokenizer = Tokenizer::from_json(gpux::test::made_tokenizer("byte-level", words));
    const std::vector<std::uint32_t> ends{end_token};
    return TokenVocabulary(tokenizer, tokenizer.vocabulary_size() + 3, ends);
  }();
  return made;
}

// Each of them takes one of the tokens that are allowed, as the text of the constraint decides.
void walk(TokenConstraint constraint, std::string_view text) {
  std::vector<float> logits(vocabulary().logits());
  for (int step = 0; step < steps && !constraint.is_finished(); ++step) {
    std::ranges::fill(logits, 1.F);
    constraint.apply(logits);
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t token = 0; token < logits.size(); ++token) {
      if (logits[token] == 1) allowed.push_back(token);
    }
    gpux::fuzz::require(!allowed.empty(), "no token is allowed");
    gpux::fuzz::require(allowed.front() >= end_token, "a special token is allowed");
    gpux::fuzz::require((allowed.front() == end_token) == constraint.may_end(),
                        "the end is allowed in the wrong place");
    const auto pick = static_cast<unsigned char>(text[static_cast<std::size_t>(step) * 7 % text.size()]);
    const std::uint32_t token = allowed[(pick + static_cast<unsigned>(step)) % allowed.size()];
    if (token == end_token) return;
    gpux::fuzz::must_succeed("a token that is allowed is refused", [&] {
      constraint.accept(token);
      return 0;
    });
  }
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  if (input.empty()) return;
  constexpr std::array<OutputConstraint::Kind, 3> kinds{OutputConstraint::Kind::json_schema,
                                                        OutputConstraint::Kind::regex, OutputConstraint::Kind::grammar};
  const OutputConstraint::Kind kind = kinds.at(static_cast<unsigned char>(input.front()) % kinds.size());
  const std::string text(input.substr(1));
  try {
    const TokenConstraint constraint(vocabulary(), {kind, text});
    walk(constraint.clone(), input);
    walk(constraint.clone(), input.substr(input.size() / 2));
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_input, "refused as something else: " + error.message());
    require(error.message().find('\n') == std::string::npos, "a message of several lines");
    const bool may_quote = text.find("llguidance") != std::string::npos;
    require(may_quote || error.message().find("llguidance failed") == std::string::npos, error.message());
  }
}
