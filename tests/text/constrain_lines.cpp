// Walks texts through constraints, and makes texts under them, for scripts/trials/constraint-trials: a JSON object a
// line in, one out.
//   {"kind": "json_schema", "text": "…", "accept": ["…"], "make": 2, "tokens": 200, "seed": 1}
//   {"accepted": [true], "made": [{"text": "…", "is_complete": true}]}, or {"refused": "…"}
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "text/token_constraint.h"
#include "text/token_words.h"

namespace {

using gpux::OutputConstraint;
using gpux::text::TokenConstraint;
using gpux::text::TokenVocabulary;
using nlohmann::json;

constexpr std::uint32_t end_token = 2;
constexpr float forbidden = -std::numeric_limits<float>::infinity();

struct Model {
  gpux::text::Tokenizer tokenizer;
  std::vector<std::string> words;
  TokenVocabulary vocabulary;

  explicit Model(const gpux::text::Tokenizer& opened)
      : tokenizer(opened), words(gpux::test::words_of(opened)), vocabulary(opened, words.size(), {{end_token}}) {}
};

OutputConstraint constraint_of(const json& wanted) {
  OutputConstraint constraint{.text = wanted.value("text", "")};
  const std::string kind = wanted.at("kind");
  if (kind == "json_object") constraint.kind = OutputConstraint::Kind::json_object;
  if (kind == "json_schema") constraint.kind = OutputConstraint::Kind::json_schema;
  if (kind == "regex") constraint.kind = OutputConstraint::Kind::regex;
  if (kind == "grammar") constraint.kind = OutputConstraint::Kind::grammar;
  return constraint;
}

bool is_allowed(const Model& model, TokenConstraint constraint, const std::vector<std::uint32_t>& tokens) {
  std::vector<float> logits(model.words.size());
  for (const std::uint32_t token : tokens) {
    std::ranges::fill(logits, 0.F);
    constraint.apply(logits);
    if (logits[token] == forbidden) return false;
    constraint.accept(token);
  }
  std::ranges::fill(logits, 0.F);
  constraint.apply(logits);
  return logits[end_token] != forbidden;
}

// Where the decoder removes a space, tokens of a text have one more or not.
bool is_accepted(const Model& model, const TokenConstraint& constraint, const std::string& text, std::mt19937& random) {
  bool is_any = false, is_tried = false;
  for (const std::string& spelt : {text, " " + text}) {
    const std::vector<std::uint32_t> tokens = gpux::test::random_tokens(spelt, model.words, random);
    if (model.tokenizer.decode(tokens) != text) continue;
    is_tried = true;
    is_any = is_any || is_allowed(model, constraint.clone(), tokens);
  }
  if (!is_tried) throw gpux::Error(gpux::ErrorCode::internal, "no tokens for: " + text);
  return is_any;
}

// A model that knows nothing: each allowed token is as probable as another, but for those that end a string or text.
json made(const Model& model, TokenConstraint constraint, std::size_t limit, std::mt19937& random) {
  std::vector<float> logits(model.words.size());
  std::vector<std::uint32_t> tokens;
  std::uniform_real_distribution<float> chance(0, 1);
  bool is_complete = false;
  while (!is_complete && tokens.size() < limit) {
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const bool is_mark =
          model.words[id].size() == 1 && std::string_view("\"}],").find(model.words[id][0]) != std::string_view::npos;
      logits[id] = chance(random) + (is_mark || id == end_token ? chance(random) : 0);
    }
    constraint.apply(logits);
    const auto token = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
    if (logits[token] == forbidden) throw gpux::Error(gpux::ErrorCode::internal, "no token is allowed");
    if (token == end_token) break;
    constraint.accept(token);
    tokens.push_back(token);
    is_complete = constraint.is_finished();
  }
  is_complete = is_complete || tokens.size() < limit;
  return {{"text", model.tokenizer.decode(tokens)}, {"is_complete", is_complete}};
}

json answer(const Model& model, const json& wanted) {
  try {
    std::mt19937 random(wanted.value("seed", 1U));
    const TokenConstraint constraint(model.vocabulary, constraint_of(wanted));
    json result{{"accepted", json::array()}, {"made", json::array()}};
    for (const std::string text : wanted.value("accept", json::array())) {
      result["accepted"].push_back(is_accepted(model, constraint, text, random));
    }
    for (std::size_t i = 0; i < wanted.value("make", std::size_t{0}); ++i) {
      result["made"].push_back(made(model, constraint.clone(), wanted.value("tokens", std::size_t{200}), random));
    }
    return result;
  } catch (const gpux::Error& error) {
    return {{"refused", error.message()}, {"code", to_string(error.code())}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw gpux::Error(gpux::ErrorCode::usage, "usage: constrain_lines TOKENIZER_JSON|FAMILY");
    const std::string which = argv[1];
    const std::vector<std::string> words{"true", "false", "null",  "name", "\": ", "\":",     "\", \"", "{\"",  "[{\"",
                                         "\"}",  "\"]",   "}}",    " {",   " [",   " \"",     "  ",     "\n",   "\n  ",
                                         "12",   "100",   "0.5",   "-1",   "e5",   "é",       "äö",     "日本", "😀",
                                         "\\n",  "\\\"",  "\\u00", "ab",   "abc",  "the",     " the",   "2024", "-01",
                                         "01-",  "T12:",  "00Z",   "@",    ".com", "http://", "192.168"};
    const auto tokenizer = which.ends_with(".json")
                               ? gpux::text::Tokenizer::from_file(which)
                               : gpux::text::Tokenizer::from_json(gpux::test::made_tokenizer(which, words));
    const Model model(tokenizer);
    std::ios::sync_with_stdio(false);
    std::string line;
    while (std::getline(std::cin, line)) {
      std::cout << answer(model, json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "constrain_lines: %s\n", error.what());
    return 1;
  }
}
