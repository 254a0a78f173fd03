#include "cli/help.h"

#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "manual/option_words.h"

namespace gpux::cli {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  // "-p,--provider": without the values that CLI11 shows of flags, as in "--strict{true}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true);
    std::string names;
    for (const std::string& name : option->get_snames()) names += (names.empty() ? "-" : ",-") + name;
    for (const std::string& name : option->get_lnames()) names += (names.empty() ? "--" : ",--") + name;
    return names;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (!option->get_option_text().empty()) return " " + option->get_option_text();
    std::string text;
    if (!option->get_positional()) text = manual::placeholder(*option);
    if (!text.empty()) text.insert(0, " ");
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }

  std::string make_option_desc(const CLI::Option* option) const override { return manual::full_description(*option); }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("SUBCOMMAND", "COMMAND");
  return formatter;
}

}  // namespace gpux::cli
