#include "project/variables.h"

#include <algorithm>
#include <cstdlib>

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

/// The value of what stands between "${" and "}".
std::string value_of(std::string_view variable, std::vector<std::string>& problems) {
  const std::size_t mark = variable.find(":-");
  const std::string name(variable.substr(0, mark));
  if (!is_variable_name(name)) {
    problems.push_back(fmt::format("{} is not a variable: ${{NAME}} and ${{NAME:-text}} are accepted, $$ gives a $",
                                   in_quotes(fmt::format("${{{}}}", variable))));
    return {};
  }
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && !is_utf8(value)) {
    problems.push_back(fmt::format("the environment variable {} is not UTF-8 text", in_quotes(name)));
    return {};
  }
  if (value != nullptr && (*value != '\0' || mark == std::string_view::npos)) return value;
  if (mark != std::string_view::npos) return std::string(variable.substr(mark + 2));
  problems.push_back(
      fmt::format("the environment variable {} is not set; set it, or write ${{{}:-text}}", in_quotes(name), name));
  return {};
}

}  // namespace

std::string expand_variables(std::string_view text, std::vector<std::string>& problems) {
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
      result += value_of(text.substr(2, end - 2), problems);
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

}  // namespace gpux
