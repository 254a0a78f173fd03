#include "vector_store/filter.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bounded_json.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_path = 16;

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::usage, format_message("{} {}; accepted: KEY=VALUE, as plugin=net or meta.size=3",
                                               setting_named("where"), in_quotes(text)));
}

// Values of lists are looked at one by one, as Qdrant does.
bool has_value(const Json& found, const Json& value) {
  if (found == value) return true;
  return found.is_array() && std::ranges::any_of(found, [&](const Json& one) { return one == value; });
}

bool matches(const Json& payload, const Condition& condition) {
  const Json* at = &payload;
  for (const std::string& name : condition.path) {
    if (!at->is_object()) return false;
    const auto found = at->find(name);
    if (found == at->end()) return false;
    at = &*found;
  }
  return has_value(*at, condition.value);
}

std::string object_at(const std::vector<std::string>& path, Json value) {
  for (auto name = path.rbegin(); name != path.rend(); ++name) {
    Json outer = Json::object();
    outer[*name] = std::move(value);
    value = std::move(outer);
  }
  return value.dump();
}

}  // namespace

Condition parse_condition(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || !is_utf8(text)) refuse(text);
  Condition condition;
  std::string_view key = text.substr(0, equals);
  for (;;) {
    const auto dot = key.find('.');
    condition.path.emplace_back(key.substr(0, dot));
    if (condition.path.back().empty() || condition.path.size() > max_path) refuse(text);
    if (dot == std::string_view::npos) break;
    key.remove_prefix(dot + 1);
  }
  const std::string_view value = text.substr(equals + 1);
  if (exceeds_64_bits(value)) {
    const std::string as_text = fmt::format("{}=\"{}\"", text.substr(0, equals), value);
    throw too_large_number(ErrorCode::usage, value)
        .within(format_message("{} {}", setting_named("where"), in_quotes(text)))
        .followed_by(format_message(", as {}", in_quotes(as_text)));
  }
  condition.value = Json::parse(value, nullptr, false);
  if (!condition.value.is_primitive() || condition.value.is_discarded()) condition.value = std::string(value);
  return condition;
}

std::string path_name(const Condition& condition) {
  std::string name;
  for (const std::string& part : condition.path) name += (name.empty() ? "" : ".") + part;
  return name;
}

bool matches(const Json& payload, const Filter& filter) {
  return std::ranges::all_of(filter, [&](const Condition& condition) { return matches(payload, condition); });
}

std::vector<ContainedObjects> containment_of(const Filter& filter) {
  std::vector<ContainedObjects> objects;
  for (const Condition& condition : filter) {
    objects.push_back({.with_value = object_at(condition.path, condition.value),
                       .with_list = object_at(condition.path, Json::array({condition.value}))});
  }
  return objects;
}

}  // namespace gpux::vector_store
