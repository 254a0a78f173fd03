#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace gpux::pipeline {

/// Task of a model that reads texts, as Hugging Face names its pipelines; `none`: its outputs are returned as they are.
enum class Task : std::uint8_t { none, text_classification, text_ranking, token_classification, question_answering };

inline constexpr std::array<std::pair<Task, std::string_view>, 5> task_names{{
    {Task::none, "none"},
    {Task::text_classification, "text-classification"},
    {Task::text_ranking, "text-ranking"},
    {Task::token_classification, "token-classification"},
    {Task::question_answering, "question-answering"},
}};

/// Function with which text ranking turns a logit into a score, by the names that torch.nn has.
enum class PairActivation : std::uint8_t { identity, sigmoid, tanh };

/// How the tokens of a word, and the words of a name, become one entity; as Hugging Face's aggregation_strategy.
enum class Aggregation : std::uint8_t { none, simple, first, average, max };

inline constexpr std::array<std::pair<Aggregation, std::string_view>, 5> aggregation_names{{
    {Aggregation::none, "none"},
    {Aggregation::simple, "simple"},
    {Aggregation::first, "first"},
    {Aggregation::average, "average"},
    {Aggregation::max, "max"},
}};

/// The value of that name; empty where there is none such.
template <typename Names>
constexpr auto value_named(const Names& names, std::string_view name)
    -> std::optional<typename Names::value_type::first_type> {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

template <typename Names, typename Value>
constexpr std::string_view name_of(const Names& names, Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return {};
}

}  // namespace gpux::pipeline
