#include "pipeline/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/spelling.h"
#include "tensor/json_writer.h"

namespace gpux::pipeline {
namespace {

// Places in bytes to places in code points; asked in rising order mostly.
class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text) {}

  std::size_t before(std::size_t byte) {
    if (byte < byte_) {
      byte_ = 0;
      characters_ = 0;
    }
    for (; byte_ < byte && byte_ < text_.size(); ++byte_) {
      const bool continues = (static_cast<unsigned char>(text_[byte_]) & 0xC0U) == 0x80U;
      if (!continues) ++characters_;
    }
    return characters_;
  }

 private:
  std::string_view text_;
  std::size_t byte_ = 0, characters_ = 0;
};

std::vector<double> softmax(std::span<const float> logits) {
  double highest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) highest = std::max(highest, static_cast<double>(logit));
  std::vector<double> scores;
  scores.reserve(logits.size());
  double total = 0;
  for (const float logit : logits) total += scores.emplace_back(std::exp(static_cast<double>(logit) - highest));
  for (double& score : scores) score /= total;
  return scores;
}

// JSON has no NaN, which logits may come to.
std::string number(double score) {
  return std::isfinite(score) ? fmt::format("{}", static_cast<float>(score)) : "null";
}

// Tokens that are given one label together.
struct Labelled {
  std::size_t begin = 0, end = 0;
  std::size_t label = 0;
  double score = 0;
};

std::size_t highest_of(const std::vector<double>& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

Labelled label_word(std::span<const TokenPlace> places, std::span<const std::vector<double>> scores,
                    Aggregation aggregation) {
  std::vector<double> decided = scores.front();
  if (aggregation == Aggregation::average) {
    for (std::size_t i = 1; i < scores.size(); ++i) {
      for (std::size_t label = 0; label < decided.size(); ++label) decided[label] += scores[i][label];
    }
    for (double& score : decided) score /= static_cast<double>(scores.size());
  } else if (aggregation == Aggregation::max) {
    for (const std::vector<double>& token : scores) {
      if (token[highest_of(token)] > decided[highest_of(decided)]) decided = token;
    }
  }
  const std::size_t label = highest_of(decided);
  return {places.front().begin, places.back().end, label, decided[label]};
}

std::vector<Labelled> label_tokens(std::span<const TokenPlace> tokens, std::span<const float> logits,
                                   std::size_t label_count, Aggregation aggregation) {
  std::vector<Labelled> labelled;
  std::vector<TokenPlace> word;
  std::vector<std::vector<double>> scores;
  const auto end_word = [&] {
    if (!word.empty()) labelled.push_back(label_word(word, scores, aggregation));
    word.clear();
    scores.clear();
  };
  const bool by_word = aggregation != Aggregation::none && aggregation != Aggregation::simple;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is_text || tokens[i].begin == tokens[i].end) continue;
    if (!by_word || !tokens[i].continues_word) end_word();
    word.push_back(tokens[i]);
    scores.push_back(softmax(logits.subspan(i * label_count, label_count)));
  }
  end_word();
  return labelled;
}

struct Tag {
  bool begins = false;
  std::string_view name;
};

// "B-PER" and "I-PER"; a label without either goes on with its like.
Tag tag_of(std::string_view label) {
  if (label.starts_with("B-")) return {true, label.substr(2)};
  if (label.starts_with("I-")) return {false, label.substr(2)};
  return {false, label};
}

}  // namespace

std::vector<Entity> find_entities(std::string_view text, std::span<const TokenPlace> tokens,
                                  std::span<const float> logits, std::span<const std::string> labels,
                                  Aggregation aggregation) {
  std::vector<Entity> entities;
  Characters characters(text);
  std::vector<Labelled> group;
  const auto end_group = [&] {
    if (group.empty()) return;
    const std::string& label = labels[group.front().label];
    if (label != "O") {
      Entity entity;
      entity.label = aggregation == Aggregation::none ? label : std::string(tag_of(label).name);
      const std::size_t begin = group.front().begin;
      const std::size_t end = group.back().end;
      entity.text = text.substr(begin, end - begin);
      for (const Labelled& part : group) entity.score += part.score / static_cast<double>(group.size());
      entity.begin = characters.before(begin);
      entity.end = characters.before(end);
      entities.push_back(std::move(entity));
    }
    group.clear();
  };
  for (const Labelled& part : label_tokens(tokens, logits, labels.size(), aggregation)) {
    const Tag tag = tag_of(labels[part.label]);
    const bool goes_on = aggregation != Aggregation::none && !group.empty() && !tag.begins &&
                         tag_of(labels[group.back().label]).name == tag.name;
    if (!goes_on) end_group();
    group.push_back(part);
  }
  end_group();
  return entities;
}

std::vector<Answer> find_answers(std::string_view text, std::span<const TokenPlace> tokens,
                                 std::span<const float> start_logits, std::span<const float> end_logits,
                                 std::size_t max_tokens, std::size_t count) {
  // What is not of the text counts as nothing, as a logit of -10000 makes it.
  const auto scores_of = [&](std::span<const float> logits) {
    std::vector<float> masked(logits.begin(), logits.end());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].is_text && i != 0) masked[i] = -10000;
    }
    return softmax(masked);
  };
  const std::vector<double> starts = scores_of(start_logits);
  const std::vector<double> ends = scores_of(end_logits);

  struct Candidate {
    double score;
    std::size_t first, last;
  };

  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is_text) continue;
    for (std::size_t j = i; j < tokens.size() && j - i < max_tokens; ++j) {
      if (!tokens[j].is_text) break;
      const double score = starts[i] * ends[j];
      if (score > 0) candidates.push_back({score, i, j});  // nor where it is no number
    }
  }
  const std::size_t kept = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), candidates.end(),
                    [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  candidates.resize(kept);
  std::vector<Answer> answers;
  Characters characters(text);
  for (auto [score, first, last] : candidates) {
    while (first > 0 && tokens[first].continues_word && tokens[first - 1].is_text) --first;
    while (last + 1 < tokens.size() && tokens[last + 1].is_text && tokens[last + 1].continues_word) ++last;
    const std::size_t begin = tokens[first].begin;
    const std::size_t end = tokens[last].end;
    answers.push_back(
        {std::string(text.substr(begin, end - begin)), score, characters.before(begin), characters.before(end)});
  }
  return answers;
}

Answer best_of(std::span<const Answer> answers) {
  std::vector<Answer> distinct;
  for (const Answer& answer : answers) {
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](const Answer& known) { return lower(known.text) == lower(answer.text); });
    if (same == distinct.end()) {
      distinct.push_back(answer);
    } else {
      same->score += answer.score;
    }
  }
  const auto best = std::max_element(distinct.begin(), distinct.end(),
                                     [](const Answer& a, const Answer& b) { return a.score < b.score; });
  return best == distinct.end() ? Answer{} : *best;
}

std::string to_json(std::span<const Entity> entities, Aggregation aggregation) {
  std::string out = "[";
  for (const Entity& entity : entities) {
    if (&entity != &entities.front()) out += ", ";
    out += aggregation == Aggregation::none ? R"({"entity": )" : R"({"entity_group": )";
    append_json_string(out, entity.label);
    out += fmt::format(R"(, "score": {}, "word": )", number(entity.score));
    append_json_string(out, entity.text);
    out += fmt::format(R"(, "start": {}, "end": {}}})", entity.begin, entity.end);
  }
  return out + "]";
}

std::string to_json(const Answer& answer) {
  std::string out = fmt::format(R"({{"score": {}, "start": {}, "end": {}, "answer": )", number(answer.score),
                                answer.begin, answer.end);
  append_json_string(out, answer.text);
  return out + "}";
}

}  // namespace gpux::pipeline
