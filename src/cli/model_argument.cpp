#include "cli/model_argument.h"

#include <CLI/App.hpp>

namespace gpux::cli {

PlacedWords place_words(const ModelArgument& argument, bool is_chosen_elsewhere) {
  PlacedWords placed{.model = argument.flag, .words = argument.rest};
  if (!argument.first) return placed;
  if (argument.flag.empty() && !is_chosen_elsewhere) {
    placed.model = *argument.first;
  } else {
    placed.words.insert(placed.words.begin(), *argument.first);
  }
  return placed;
}

void add_words(CLI::App& command, const std::string& name, std::vector<std::string>& words,
               const std::string& description) {
  // Only an option that still misses some takes further words without taking them apart.
  constexpr int any_number = CLI::detail::expected_max_vector_size;
  command.add_option(name, words, description)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(any_number - 1, any_number)
      ->allow_extra_args(false)
      ->option_text("...");
}

}  // namespace gpux::cli
