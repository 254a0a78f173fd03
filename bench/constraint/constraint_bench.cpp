// What constrained output costs: making the vocabulary, reading a constraint, and each token. A vocabulary of 150,000
// made-up words, byte-level. Prints microseconds of processor time as one JSON object.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/token_constraint.h"
#include "text/token_words.h"

namespace {

using gpux::OutputConstraint;
using gpux::text::TokenConstraint;
using gpux::text::TokenVocabulary;

constexpr std::size_t vocabulary_size = 150'000;
constexpr std::uint32_t end_token = 2;
constexpr std::size_t max_tokens = 400, texts = 5;
constexpr float forbidden = -std::numeric_limits<float>::infinity();

// Of all threads: constraints are read on one of their own.
double processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Words of syllables, with a space before, with capitals, numbers and signs, as trained vocabularies have them.
std::vector<std::string> made_words() {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same words each time
  const std::string consonants = "bcdfghklmnprstvwz", vowels = "aeiou", signs = "{}[]\":,.;()/-_=<>\n ";
  std::set<std::string> words;
  while (words.size() < vocabulary_size) {
    std::string word = random() % 2 == 0 ? " " : "";
    const std::size_t kind = random() % 20, length = 1 + random() % 4;
    for (std::size_t i = 0; i < length; ++i) {
      if (kind == 0) word += static_cast<char>('0' + random() % 10);
      if (kind == 1) word += signs[random() % signs.size()];
      if (kind == 2) word += "日本語éüñ中文的是"[random() % 26];
      if (kind > 2) (word += consonants[random() % consonants.size()]) += vowels[random() % vowels.size()];
    }
    if (kind > 16) word[word.find_first_not_of(' ')] = static_cast<char>(std::toupper(word.back()));
    words.insert(word);
  }
  return {words.begin(), words.end()};
}

struct Case {
  const char* name;
  OutputConstraint constraint;
};

nlohmann::json measured(const TokenVocabulary& vocabulary, const Case& wanted) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same texts each time
  const double start = processor_time();
  const TokenConstraint constraint(vocabulary, wanted.constraint);
  const double reading = processor_time() - start;
  std::vector<float> logits(vocabulary.logits()), numbers(vocabulary.logits());
  std::uniform_real_distribution<float> chance(0, 1);
  std::vector<double> steps;
  for (std::size_t text = 0; text < texts; ++text) {
    TokenConstraint own = constraint.clone();
    for (std::size_t i = 0; i < max_tokens && !own.is_finished(); ++i) {
      for (float& number : numbers) number = chance(random);
      logits = numbers;
      const double before = processor_time();
      own.apply(logits);
      const double applied = processor_time() - before;
      logits[end_token] = forbidden;
      const auto token = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
      if (logits[token] == forbidden) break;
      const double between = processor_time();
      own.accept(token);
      steps.push_back(applied + (processor_time() - between));
    }
  }
  std::ranges::sort(steps);
  double sum = 0;
  for (const double step : steps) sum += step;
  return {{"read_us", reading},
          {"tokens", steps.size()},
          {"mean_us", sum / static_cast<double>(steps.size())},
          {"median_us", steps[steps.size() / 2]},
          {"p99_us", steps[steps.size() * 99 / 100]},
          {"max_us", steps.back()}};
}

}  // namespace

int main() {
  const std::string json = gpux::test::made_tokenizer("byte-level", made_words());
  const auto tokenizer = gpux::text::Tokenizer::from_json(json);
  const std::vector<std::uint32_t> ends{end_token};
  const double start = processor_time();
  const TokenVocabulary vocabulary(tokenizer, tokenizer.vocabulary_size(), ends);
  nlohmann::json report{{"vocabulary", vocabulary.logits()}, {"make_vocabulary_us", processor_time() - start}};
  using Kind = OutputConstraint::Kind;
  const std::string person = R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
      "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items":
      {"enum": ["a", "b", "c"]}}, "address": {"type": "object", "properties": {"street": {"type": "string"}, "city":
      {"type": "string", "maxLength": 40}}, "required": ["street", "city"], "additionalProperties": false}},
      "required": ["name", "age", "email", "tags", "address"], "additionalProperties": false})";
  for (const Case& wanted : std::vector<Case>{
           {"json_object", {Kind::json_object, ""}},
           {"json_schema", {Kind::json_schema, person}},
           {"regex", {Kind::regex, R"((\w+ ){20,40}\w+\.)"}},
           {"grammar",
            {Kind::grammar, "start: sum\nsum: term (\" + \" term)*\nterm: NUM | \"(\" sum \")\"\nNUM: /[0-9]+/"}},
       }) {
    report[wanted.name] = measured(vocabulary, wanted);
  }
  std::puts(report.dump(2).c_str());
  return 0;
}
