#include "generation/response_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::ordered_json;
using Kind = OutputConstraint::Kind;

constexpr int max_levels = 200;
constexpr std::size_t max_choices = 10'000;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

std::string excerpt(const Json& value) {
  constexpr std::size_t max_bytes = 40;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_bytes) text = std::string(utf8_prefix(text, max_bytes)) + "...";
  return text;
}

[[noreturn]] void refuse_value(std::string_view name, const Json& value, std::string_view accepted) {
  refuse(fmt::format("{} is {}; accepted: {}", name, excerpt(value), accepted));
}

// Levels are limited: what writes JSON descends into it.
Json parsed(std::string_view text, std::string_view name) {
  const auto is_kept = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > max_levels) refuse(fmt::format("{} has more than {} levels of JSON", name, max_levels));
    return true;
  };
  try {
    return Json::parse(text, is_kept);
  } catch (const Json::parse_error& error) {
    refuse(fmt::format("{} is no JSON: wrong at byte {}", name, error.byte));
  } catch (const Json::out_of_range&) {
    refuse(fmt::format("{} has a number that no float64 holds", name));
  }
}

const Json& require_object(const Json& value, std::string_view name) {
  if (!value.is_object()) refuse_value(name, value, "an object");
  return value;
}

// Null where the member is not there or null.
const Json* find(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void refuse_others(const Json& object, std::string_view place, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    refuse(fmt::format("{} has the member {}; accepted: {}", place, excerpt(name), fmt::join(known, ", ")));
  }
}

std::string text_of(std::string_view name, const Json& value) {
  if (!value.is_string()) refuse_value(name, value, "a text");
  return value.get<std::string>();
}

OutputConstraint schema_of(std::string_view name, const Json& value) {
  if (!value.is_object() && !value.is_boolean()) refuse_value(name, value, "a JSON schema");
  return {Kind::json_schema, value.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

OutputConstraint response_format(const Json& value) {
  const std::string_view place = "response_format";
  require_object(value, place);
  refuse_others(value, place, {"type", "json_schema"});
  const Json* type = find(value, "type");
  if (type == nullptr) refuse("response_format has no type; accepted: text, json_object, json_schema");
  const Json* described = find(value, "json_schema");
  if (*type == "json_schema") {
    const std::string_view inside = "response_format.json_schema";
    if (described == nullptr) refuse("response_format has no json_schema, which its type needs");
    require_object(*described, inside);
    refuse_others(*described, inside, {"name", "description", "schema", "strict"});
    for (const std::string_view name : {"name", "description"}) {
      if (const Json* text = find(*described, name)) text_of(fmt::format("{}.{}", inside, name), *text);
    }
    const Json* strict = find(*described, "strict");
    if (strict != nullptr && !strict->is_boolean()) {
      refuse_value("response_format.json_schema.strict", *strict, "true or false");
    }
    const Json* schema = find(*described, "schema");
    if (schema == nullptr) refuse("response_format.json_schema has no schema");
    return schema_of("response_format.json_schema.schema", *schema);
  }
  if (described != nullptr) refuse("response_format has json_schema; accepted where its type is json_schema");
  if (*type == "text") return {};
  if (*type == "json_object") return {Kind::json_object, ""};
  refuse_value("response_format.type", *type, "text, json_object, json_schema");
}

OutputConstraint guided_json(const Json& value) {
  if (!value.is_string()) return schema_of("guided_json", value);
  return schema_of("guided_json", parsed(value.get<std::string>(), "guided_json"));
}

// Each character that a regular expression reads as more than itself is ASCII punctuation.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view(R"(\.+*?()|[]{}^$#&-~)").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

OutputConstraint guided_choice(const Json& value) {
  const bool is_list = value.is_array() && !value.empty() && value.size() <= max_choices;
  if (!is_list) refuse_value("guided_choice", value, fmt::format("a list of 1 to {} texts", max_choices));
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < value.size(); ++i) {
    choices.push_back(escaped(text_of(fmt::format("guided_choice[{}]", i), value[i])));
  }
  return {Kind::regex, fmt::format("{}", fmt::join(choices, "|"))};
}

OutputConstraint guided_grammar(const Json& value) {
  std::string text = text_of("guided_grammar", value);
  if (text.find("::=") != std::string::npos) {
    refuse("guided_grammar has \"::=\", as GBNF has it; accepted: a grammar in Lark, with the rule start");
  }
  return {Kind::grammar, std::move(text)};
}

OutputConstraint guided_regex(const Json& value) {
  return {Kind::regex, text_of("guided_regex", value)};
}

// {"json": …} is guided_json, and so on; what says how they are computed changes no answer.
OutputConstraint structured_outputs(const Json& value) {
  struct Member {
    std::string_view name;
    OutputConstraint (*read)(const Json& value);
  };

  static constexpr std::array<Member, 4> members{
      {{"json", guided_json}, {"regex", guided_regex}, {"choice", guided_choice}, {"grammar", guided_grammar}}};
  const std::string_view place = "structured_outputs";
  require_object(value, place);
  refuse_others(value, place, {"json", "regex", "choice", "grammar", "json_object", "backend", "disable_fallback"});
  OutputConstraint constraint;
  for (const Member& member : members) {
    const Json* given = find(value, member.name);
    if (given == nullptr) continue;
    if (constraint.kind != Kind::none) refuse("structured_outputs has several forms; accepted: one of them");
    try {
      constraint = member.read(*given);
    } catch (const Error& error) {
      // They name the older member.
      const std::string message = error.message(), older = fmt::format("guided_{}", member.name);
      if (!message.starts_with(older)) throw;
      refuse(fmt::format("structured_outputs.{}{}", member.name, std::string_view(message).substr(older.size())));
    }
  }
  const Json* any_object = find(value, "json_object");
  if (any_object != nullptr && !any_object->is_boolean()) {
    refuse_value("structured_outputs.json_object", *any_object, "true or false");
  }
  if (any_object == nullptr || *any_object == false) return constraint;
  if (constraint.kind != Kind::none) refuse("structured_outputs has several forms; accepted: one of them");
  return {Kind::json_object, ""};
}

}  // namespace

OutputConstraint read_response_format(std::string_view value) {
  const Json json = parsed(value, "response_format");
  return json.is_null() ? OutputConstraint() : response_format(json);
}

OutputConstraint read_openai_constraint(std::string_view body) {
  struct Member {
    std::string_view name;
    OutputConstraint (*read)(const Json& value);
  };

  static constexpr std::array<Member, 6> members{{
      {"response_format", response_format},
      {"guided_json", guided_json},
      {"guided_regex", guided_regex},
      {"guided_choice", guided_choice},
      {"guided_grammar", guided_grammar},
      {"structured_outputs", structured_outputs},
  }};
  const Json request = parsed(body, "the request");
  require_object(request, "the request");
  OutputConstraint constraint;
  std::string_view first;
  for (const Member& member : members) {
    const Json* value = find(request, member.name);
    if (value == nullptr) continue;
    OutputConstraint own = member.read(*value);
    if (own.kind == Kind::none) continue;
    if (constraint.kind != Kind::none)
      refuse(fmt::format("{} and {} are both there; accepted: one of them", first, member.name));
    constraint = std::move(own);
    first = member.name;
  }
  return constraint;
}

OutputConstraint read_ollama_constraint(std::string_view body) {
  const Json request = parsed(body, "the request");
  require_object(request, "the request");
  const Json* format = find(request, "format");
  const bool is_none = format == nullptr || (format->is_string() && format->get_ref<const std::string&>().empty());
  if (is_none) return {};
  if (*format == "json") return {Kind::json_object, ""};
  if (!format->is_object()) refuse_value("format", *format, "\"json\", or a JSON schema");
  return schema_of("format", *format);
}

}  // namespace gpux::generation
