#include "registry/oci/auth_challenge.h"

#include <algorithm>
#include <optional>

#include "base/spelling.h"

namespace gpux::oci {
namespace {

constexpr std::size_t limit_challenges = 16;
constexpr std::size_t limit_parameters = 32;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_token_character(char c) {
  return is_alphanumeric(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token68_character(char c) {
  return is_alphanumeric(c) || std::string_view("-._~+/").find(c) != std::string_view::npos;
}

/// What is left of the header.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  [[nodiscard]] std::string_view rest() const { return rest_; }

  void restore(std::string_view rest) { rest_ = rest; }

  std::size_t skip_spaces() {
    return take_while([](char c) { return c == ' ' || c == '\t'; }).size();
  }

  // A list may have empty elements.
  void skip_commas() {
    (void)take_while([](char c) { return c == ' ' || c == '\t' || c == ','; });
  }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  template <typename Accepts>
  std::string_view take_while(const Accepts& accepts) {
    const auto* const end = std::find_if_not(rest_.begin(), rest_.end(), accepts);
    const std::string_view taken(rest_.begin(), end);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::optional<std::string> take_quoted() {
    if (!take('"')) return std::nullopt;
    std::string text;
    while (!rest_.empty()) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (c == '\\') {
        if (rest_.empty()) return std::nullopt;
        c = rest_.front();
        rest_.remove_prefix(1);
      }
      text += c;
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

struct Parameter {
  std::string name, value;
};

/// "name=value"; the reader stays where it is if there is none.
std::optional<Parameter> take_parameter(Reader& reader) {
  const std::string_view start = reader.rest();
  Parameter parameter{lower(std::string(reader.take_while(is_token_character))), {}};
  reader.skip_spaces();
  bool is_whole = !parameter.name.empty() && reader.take('=');
  if (is_whole) {
    reader.skip_spaces();
    if (reader.rest().starts_with('"')) {
      const std::optional<std::string> quoted = reader.take_quoted();
      is_whole = quoted.has_value();
      parameter.value = quoted.value_or("");
    } else {
      parameter.value = reader.take_while(is_token_character);
      is_whole = !parameter.value.empty();
    }
  }
  if (is_whole) return parameter;
  reader.restore(start);
  return std::nullopt;
}

/// "abc=="; the reader stays where it is if what follows is something else.
std::string take_token68(Reader& reader) {
  const std::string_view start = reader.rest();
  std::string token(reader.take_while(is_token68_character));
  if (!token.empty()) token += reader.take_while([](char c) { return c == '='; });
  reader.skip_spaces();
  if (!token.empty() && (reader.at_end() || reader.rest().starts_with(','))) return token;
  reader.restore(start);
  return {};
}

}  // namespace

std::string AuthChallenge::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string() : found->second;
}

std::vector<AuthChallenge> parse_auth_challenges(std::string_view header) {
  std::vector<AuthChallenge> challenges;
  Reader reader(header);
  for (reader.skip_commas(); !reader.at_end() && challenges.size() < limit_challenges; reader.skip_commas()) {
    AuthChallenge challenge;
    challenge.scheme = lower(std::string(reader.take_while(is_token_character)));
    if (challenge.scheme.empty()) break;
    const bool has_more = reader.skip_spaces() != 0;
    if (!has_more && !reader.at_end() && !reader.rest().starts_with(',')) break;
    if (has_more) {
      // "YWJj=" reads as the beginning of a parameter, too: this order decides for what is whole.
      if (challenge.token68 = take_token68(reader); challenge.token68.empty()) {
        while (challenge.parameters.size() < limit_parameters) {
          const std::string_view before = reader.rest();
          if (!challenge.parameters.empty()) reader.skip_commas();
          std::optional<Parameter> parameter = take_parameter(reader);
          if (!parameter) {
            reader.restore(before);
            break;
          }
          challenge.parameters.emplace(std::move(parameter->name), std::move(parameter->value));
          reader.skip_spaces();
          if (!reader.at_end() && !reader.rest().starts_with(',')) return challenges;
        }
      }
    }
    challenges.push_back(std::move(challenge));
    if (!reader.at_end() && !reader.rest().starts_with(',')) break;
  }
  return challenges;
}

}  // namespace gpux::oci
