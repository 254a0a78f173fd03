#include "manual/option_words.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::manual {
namespace {

struct Placeholder {
  std::string_view word, flags;
};

// Flags whose value is neither a number nor one of a list. All others have the placeholder TEXT.
constexpr std::array<Placeholder, 29> placeholders{{
    {"ADDRESS", "host"},
    {"CASE", "case"},
    {"DIGEST", "sha256"},
    {"FILE",
     "admin-key-file api-key-file audit-log ca-file config custom-ops file grammar index limits models output profile "
     "query-vector report sign "
     "state-file texts tls-cert tls-client-ca tls-key verify-key"},
    {"FOLDER", "cache-dir from model-dir prompt-cache repository suite"},
    {"HOST", "insecure"},
    {"INPUT", "input"},
    {"JSON", "template-values"},
    {"KEY=VALUE", "provider-option session-option"},
    {"LABELS", "labels"},
    {"LEVEL", "level optimization-level"},
    {"MODEL", "default draft model"},
    {"N", "device inter-threads threads workers"},
    {"NAME", "allowed-host column field output-name prompt tag text-prompt username"},
    {"NAME=PATH", "provider-library"},
    {"NAME=SIZE", "dim"},
    {"ORIGIN", "cors-origin"},
    {"PATH", "images samples unix"},
    {"PORT", "grpc-port metrics-port port"},
    {"PRECISION", "precision"},
    {"PROVIDER", "provider reference"},
    {"REGEX", "regex"},
    {"SCHEMA", "json-schema"},
    {"SECONDS", "interval seconds"},
    {"SHAPES", "shapes"},
    {"SIZE", "cache-memory chunk-size device-memory-budget max-body memory memory-budget prompt-cache-size"},
    {"TIME",
     "drain-delay drain-timeout load-timeout max-queue-delay max-restart-delay preflight-timeout stop-grace timeout "
     "watch"},
    {"TOKEN", "stop-token"},
    {"X", "min-cosine"},
}};

bool has_any(const CLI::Option& option, std::string_view flags) {
  const std::vector<std::string> names = split(flags, ' ');
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return option.check_lname(name); });
}

// "UINT:UINT in [0 - 16]" is "0 to 16"; empty for ranges whose end is the type's, a port's or no number that a user
// comes near.
std::string range_of(const std::string& type) {
  constexpr std::size_t most_digits = 4;
  const std::size_t begin = type.find(" in ["), dash = type.find(" - "), end = type.rfind(']');
  if (begin == std::string::npos || dash == std::string::npos || end == std::string::npos) return {};
  const std::string last = type.substr(dash + 3, end - dash - 3);
  if (last.size() > most_digits) return {};
  return type.substr(begin + 5, dash - begin - 5) + " to " + last;
}

// --json and --table are in every command; that they exclude each other goes without saying.
bool is_worth_saying(const CLI::Option& other) {
  return !other.get_group().empty() && !other.check_lname("json") && !other.check_lname("table");
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    if (is_worth_saying(*option)) names.push_back(option->get_name());
  }
  std::sort(names.begin(), names.end());  // they come by their addresses
  return join(names);
}

}  // namespace

// CLI11 keeps the words of IsMember only in the type's name: "TEXT:{null,string}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == std::string::npos || !type.ends_with('}')) return {};
  return split(type.substr(begin + 1, type.size() - begin - 2), ',');
}

std::string placeholder(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  if (const auto choices = choices_of(option); !choices.empty()) return join(choices, "|");
  for (const Placeholder& row : placeholders) {
    if (has_any(option, row.flags)) return std::string(row.word);
  }
  const std::string type = option.get_type_name();
  const std::string first = type.substr(0, type.find(':'));
  if (first == "UINT" || first == "INT") return "N";
  return first == "FLOAT" ? "X" : first;
}

bool takes_path(const CLI::Option& option) {
  constexpr std::array<std::string_view, 4> words{"FILE", "FOLDER", "INPUT", "PATH"};
  const std::string word = placeholder(option);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string full_description(const CLI::Option& option) {
  std::string text = option.get_description();
  if (const std::string range = range_of(option.get_type_name()); !range.empty()) text += fmt::format(" ({})", range);
  if (option.get_required() && !option.get_positional()) text += " (required)";
  if (const std::string needed = names_of(option.get_needs()); !needed.empty())
    text += fmt::format(" (with {})", needed);
  const std::string excluded = names_of(option.get_excludes());
  if (!excluded.empty()) text += fmt::format(" (not with {})", excluded);
  return text;
}

void require_known_placeholders(const CLI::App& program) {
  std::vector<const CLI::App*> apps = program.get_subcommands({});
  apps.push_back(&program);
  const auto is_known = [&](const std::string& name) {
    return std::any_of(apps.begin(), apps.end(), [&](const CLI::App* app) {
      const std::vector<const CLI::Option*> options = app->get_options();
      return std::any_of(options.begin(), options.end(),
                         [&](const CLI::Option* option) { return option->check_lname(name); });
    });
  };
  for (const Placeholder& row : placeholders) {
    for (const std::string& flag : split(row.flags, ' ')) {
      if (!is_known(flag)) throw Error(ErrorCode::internal, fmt::format("no command has the flag --{}", flag));
    }
  }
}

}  // namespace gpux::manual
