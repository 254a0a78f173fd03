#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpux::cli {

/// Words as typed, where the first of them is the model unless a flag names it: "MODEL [TEXT...]".
struct ModelArgument {
  std::optional<std::string> first;
  std::vector<std::string> rest;  ///< the words behind it
  std::string flag;               ///< -m, --model
};

struct PlacedWords {
  std::string model;               ///< empty: there is none among them
  std::vector<std::string> words;  ///< without the model
};

/// With -m, or where `is_chosen_elsewhere` (a level stands for a model), all words are texts; else the first is the
/// model. What the words look like does not count.
[[nodiscard]] PlacedWords place_words(const ModelArgument& argument, bool is_chosen_elsewhere = false);

/// Adds an argument of any number of words, each kept as it was typed: CLI11 would take "[a, b]" for two of them.
void add_words(CLI::App& command, const std::string& name, std::vector<std::string>& words,
               const std::string& description);

}  // namespace gpux::cli
