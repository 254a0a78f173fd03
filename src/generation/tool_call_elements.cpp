#include "generation/tool_call_elements.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "generation/json_extent.h"
#include "generation/tool_call_text.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::json;
using Types = std::set<std::string, std::less<>>;

constexpr std::string_view blanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view without_outer_newlines(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// The types of JSON that a schema allows, as far as it says so; empty: it does not.
class SchemaTypes {
 public:
  explicit SchemaTypes(const Json& root) : root_(root) {}

  Types of(const Json& schema) {
    Types types;
    add(schema, types, 0);
    return types;
  }

 private:
  static constexpr int max_depth = 16;

  void add(const Json& schema, Types& types, int depth) {
    if (!schema.is_object() || depth > max_depth) return;
    const auto member = [&](const char* name) -> const Json* {
      const auto found = schema.find(name);
      return found == schema.end() ? nullptr : &*found;
    };
    if (const Json* type = member("type")) add_names(*type, types);
    if (const Json* nullable = member("nullable"); nullable != nullptr && *nullable == true) types.insert("null");
    if (const Json* value = member("const")) types.insert(type_of(*value));
    if (const Json* values = member("enum"); values != nullptr && values->is_array()) {
      for (const Json& value : *values) types.insert(type_of(value));
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      const Json* schemas = member(name);
      if (schemas == nullptr || !schemas->is_array()) continue;
      for (const Json& one : *schemas) add(one, types, depth + 1);
    }
    if (const Json* reference = member("$ref"); reference != nullptr && reference->is_string()) {
      if (const Json* target = pointed_to(reference->get_ref<const std::string&>())) add(*target, types, depth + 1);
    }
  }

  static void add_names(const Json& type, Types& types) {
    if (type.is_string()) types.insert(type.get<std::string>());
    if (!type.is_array()) return;
    for (const Json& one : type) {
      if (one.is_string()) types.insert(one.get<std::string>());
    }
  }

  static std::string type_of(const Json& value) { return value.is_number() ? "number" : value.type_name(); }

  [[nodiscard]] const Json* pointed_to(const std::string& reference) const {
    if (!reference.starts_with('#')) return nullptr;
    try {
      const Json::json_pointer pointer(reference.substr(1));
      return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
    } catch (const Json::exception&) {
      return nullptr;
    }
  }

  const Json& root_;
};

bool is_number_type(const Types& types) {
  return types.contains("number") || types.contains("integer");
}

// Whether JSON text is of one of the types, besides a string.
bool fits(std::string_view json, const Types& types) {
  switch (json.front()) {
    case '{':
      return types.contains("object");
    case '[':
      return types.contains("array");
    case 't':
    case 'f':
      return types.contains("boolean");
    case 'n':
      return types.contains("null");
    case '"':
      return false;
    default:
      return is_number_type(types);
  }
}

// The value as JSON. What is of no type of the schema is a text, as a string is; without any type, so is all but an
// object or a list.
std::string value_of(std::string_view written, const Types& types) {
  const std::string_view text = trimmed(written);
  static const Types unknown{"object", "array"};
  const Types& accepted = types.empty() ? unknown : types;
  if (!text.empty() && is_json(text) && fits(text, accepted)) return std::string(text);
  // Templates show values to the model as Python writes them.
  const std::optional<std::string> literal = text.empty() ? std::nullopt : read_python_literal(text);
  if (literal && fits(*literal, accepted)) return *literal;
  const bool is_quoted = text.starts_with('"') && is_json(text);
  if (is_quoted && !types.empty() && !types.contains("string")) return std::string(text);
  return Json(written).dump();
}

/// Takes elements off a text. Each function takes what it reads off the text, or gives nothing.
class ElementReader {
 public:
  ElementReader(std::string_view text, const CallElements& elements, const CallableFunctions& functions)
      : rest_(text), elements_(elements), functions_(functions) {}

  std::optional<std::vector<ToolCall>> calls() {
    std::vector<ToolCall> calls;
    for (skip(); !rest_.empty(); skip()) {
      std::optional<ToolCall> one = call();
      if (!one) return std::nullopt;
      calls.push_back(*std::move(one));
    }
    if (calls.empty()) return std::nullopt;
    return calls;
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size())); }

  bool take(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  // Up to the mark, which is taken, too.
  std::optional<std::string_view> take_up_to(std::string_view mark) {
    const std::size_t at = rest_.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view part = rest_.substr(0, at);
    rest_.remove_prefix(at + mark.size());
    return part;
  }

  std::optional<std::string_view> name() {
    if (!elements_.name_end.empty()) return take_up_to(elements_.name_end);
    const std::string_view part = rest_.substr(0, rest_.find_first_of(" \t\r\n<"));
    rest_.remove_prefix(part.size());
    return part;
  }

  std::optional<ToolCall> call() {
    if (!take(elements_.function)) return std::nullopt;
    const std::optional<std::string_view> written = name();
    if (!written) return std::nullopt;
    ToolCall made;
    made.name = known_function(trimmed(*written), functions_.names);
    if (made.name.empty()) return std::nullopt;
    const Json schema = schema_of(made.name);
    std::vector<std::pair<std::string, std::string>> arguments;
    for (skip(); rest_.starts_with(elements_.parameter); skip()) {
      if (!take_parameter(schema, arguments)) return std::nullopt;
    }
    if (!take(elements_.function_end)) return std::nullopt;
    made.arguments = "{";
    for (const auto& [key, value] : arguments) {
      made.arguments += fmt::format("{}{}: {}", made.arguments.size() == 1 ? "" : ", ", Json(key).dump(), value);
    }
    made.arguments += '}';
    return made;
  }

  // Of two values of one key, the last counts, as in JSON.
  bool take_parameter(const Json& schema, std::vector<std::pair<std::string, std::string>>& arguments) {
    (void)take(elements_.parameter);
    const std::optional<std::string_view> key = take_up_to(elements_.key_end);
    if (!key) return false;
    if (!elements_.value.empty()) {
      skip();
      if (!take(elements_.value)) return false;
    }
    const std::optional<std::string_view> value = take_up_to(elements_.value_end);
    if (!value) return false;
    const std::string name(trimmed(*key));
    std::string json = value_of(without_outer_newlines(*value), types_of(schema, name));
    const auto same = std::ranges::find(arguments, name, &std::pair<std::string, std::string>::first);
    if (same != arguments.end()) {
      same->second = std::move(json);
    } else {
      arguments.emplace_back(name, std::move(json));
    }
    return true;
  }

  [[nodiscard]] Json schema_of(const std::string& function) const {
    const auto found = std::ranges::find(functions_.names, function);
    const auto index = static_cast<std::size_t>(found - functions_.names.begin());
    if (index >= functions_.parameters.size()) return {};
    return Json::parse(functions_.parameters[index], nullptr, false);
  }

  static Types types_of(const Json& schema, const std::string& key) {
    if (!schema.is_object()) return {};
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) return {};
    const auto property = properties->find(key);
    return property == properties->end() ? Types() : SchemaTypes(schema).of(*property);
  }

  std::string_view rest_;
  const CallElements& elements_;
  const CallableFunctions& functions_;
};

// A block ```json … ``` without its marks; other texts as they are.
std::string_view without_fence(std::string_view text) {
  constexpr std::string_view begin = "```json", end = "```";
  if (!text.starts_with(begin)) return text;
  text = trimmed(text.substr(begin.size()));
  if (text.ends_with(end)) text.remove_suffix(end.size());
  return trimmed(text);
}

}  // namespace

std::string known_function(std::string_view name, std::span<const std::string> functions) {
  constexpr std::string_view prefix = "functions.";
  const auto is_known = [&](std::string_view one) { return std::ranges::find(functions, one) != functions.end(); };
  if (is_known(name)) return std::string(name);
  if (!name.starts_with(prefix) || !is_known(name.substr(prefix.size()))) return {};
  return std::string(name.substr(prefix.size()));
}

std::optional<std::vector<ToolCall>> read_element_calls(std::string_view text, const CallElements& elements,
                                                        const CallableFunctions& functions) {
  if (!is_utf8(text)) return std::nullopt;
  return ElementReader(text, elements, functions).calls();
}

std::optional<ToolCall> read_named_call(std::string_view text, std::string_view separator,
                                        std::span<const std::string> functions) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view name = trimmed(text.substr(0, at)), arguments = trimmed(text.substr(at + separator.size()));
  if (!arguments.starts_with('{')) {
    // The first text was the kind.
    const std::size_t end = std::min(arguments.find_first_of(blanks), arguments.size());
    name = arguments.substr(0, end);
    arguments = without_fence(trimmed(arguments.substr(end)));
  }
  ToolCall call;
  const std::size_t colon = name.rfind(':');
  const bool is_numbered = colon != std::string_view::npos && colon + 1 < name.size() &&
                           name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  if (is_numbered) call.id = name;
  call.name = known_function(is_numbered ? name.substr(0, colon) : name, functions);
  if (call.name.empty() || !arguments.starts_with('{') || !is_json(arguments)) return std::nullopt;
  call.arguments = arguments;
  return call;
}

}  // namespace gpux::generation
