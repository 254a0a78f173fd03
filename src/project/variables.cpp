#include "project/variables.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/utf8.h"

namespace gpux {
namespace {

constexpr std::size_t limit_bytes = std::size_t{1} << 20;

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  if (name.empty() || !letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// What stands between "${" and "}".
struct Variable {
  std::string name;
  std::optional<std::string_view> otherwise;  ///< behind ":-"
};

std::optional<Variable> read_variable(std::string_view text, std::vector<std::string>& problems) {
  const std::size_t mark = text.find(":-");
  Variable variable{.name = std::string(text.substr(0, mark)), .otherwise = {}};
  if (mark != std::string_view::npos) variable.otherwise = text.substr(mark + 2);
  if (is_variable_name(variable.name)) return variable;
  problems.push_back(fmt::format("{} is not a variable: ${{NAME}} and ${{NAME:-text}} are accepted, $$ gives a $",
                                 in_quotes(fmt::format("${{{}}}", text))));
  return std::nullopt;
}

std::string value_of(const Variable& variable, std::vector<std::string>& problems) {
  const char* value = std::getenv(variable.name.c_str());
  if (value != nullptr && !is_utf8(value)) {
    problems.push_back(fmt::format("the environment variable {} is not UTF-8 text", in_quotes(variable.name)));
    return {};
  }
  if (value != nullptr && (*value != '\0' || !variable.otherwise)) return value;
  if (variable.otherwise) return std::string(*variable.otherwise);
  problems.push_back(fmt::format("the environment variable {} is not set; set it, or write ${{{}:-text}}",
                                 in_quotes(variable.name), variable.name));
  return {};
}

template <typename ValueOf>
std::string expand(std::string_view text, std::vector<std::string>& problems, const ValueOf& value) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    result += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
    } else if (text.starts_with("${")) {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) {
        problems.push_back(fmt::format("{} lacks its }}", in_quotes(text)));
        return {};
      }
      if (const auto variable = read_variable(text.substr(2, end - 2), problems)) result += value(*variable);
      text.remove_prefix(end + 1);
    } else if (!text.empty()) {
      result += '$';
      text.remove_prefix(1);
    }
    if (result.size() > limit_bytes) {
      problems.push_back(fmt::format("variables make more than {} bytes of this value", limit_bytes));
      return {};
    }
  }
  return result;
}

}  // namespace

std::string expand_variables(std::string_view text, std::vector<std::string>& problems) {
  return expand(text, problems, [&](const Variable& variable) { return value_of(variable, problems); });
}

std::string expand_without_environment(std::string_view text, std::vector<std::string>& problems,
                                       std::vector<std::string>& unread) {
  return expand(text, problems, [&](const Variable& variable) {
    if (std::ranges::find(unread, variable.name) == unread.end()) unread.push_back(variable.name);
    return variable.otherwise ? std::string(*variable.otherwise) : fmt::format("${{{}}}", variable.name);
  });
}

}  // namespace gpux
