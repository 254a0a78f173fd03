#include "daemon/event_text.h"

#include <array>
#include <initializer_list>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

// Its objects are sorted by their keys' bytes.
using Json = nlohmann::json;

Json parse(std::string_view text, int depth_limit) {
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t event, const Json&) {
      const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      if (opens && depth >= depth_limit) {
        throw Error(ErrorCode::invalid_input,
                    fmt::format("nested deeper than {} levels, the limit 'event_depth'", depth_limit));
      }
      return true;
    });
  } catch (const Json::parse_error& error) {
    require_utf8(text);
    throw Error(ErrorCode::invalid_input, fmt::format("not JSON at byte {} of {}", error.byte, text.size()));
  } catch (const Json::exception&) {
    throw Error(ErrorCode::invalid_input, "not JSON: a number that no float64 holds");
  }
}

std::string shown(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : value.dump();
}

void add_line(std::string& text, std::string_view name, const Json& value) {
  if (!text.empty()) text += '\n';
  text += fmt::format("{}: {}", name, shown(value));
}

// The first of them that the event has and that is not null; it is taken out.
Json take(Json& event, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = event.find(name);
    if (found == event.end() || found->is_null()) continue;
    Json value = std::move(*found);
    event.erase(found);
    return value;
  }
  return nullptr;
}

void add_data(std::string& text, const Json& data) {
  if (data.is_object()) {
    for (const auto& [name, value] : data.items()) add_line(text, name, value);
  } else {
    add_line(text, "data", data);
  }
}

std::string hash_of(std::string_view kind, std::initializer_list<std::string_view> parts) {
  Sha256 sum;
  const auto update = [&](std::string_view bytes) { sum.update(std::as_bytes(std::span(bytes))); };
  update(kind);
  for (const std::string_view part : parts) {
    update(fmt::format("\n{}\n", part.size()));
    update(part);
  }
  return sum.hex();
}

}  // namespace

Event read_event(std::string_view json, const EventLimits& limits) {
  Json given = parse(json, limits.event_depth);
  Event event;
  event.timestamp = event.metadata = "null";
  Json data = nullptr;
  bool has_data = true;
  if (given.is_object()) {
    const Json plugin = take(given, {"plugin", "plugin_id", "category"});
    const Json operation = take(given, {"operation", "action"});
    const Json id = take(given, {"id"});
    const Json metadata = take(given, {"metadata"});
    event.timestamp = take(given, {"timestamp"}).dump();
    if (!plugin.is_null()) add_line(event.text, "plugin", plugin);
    if (!operation.is_null()) add_line(event.text, "operation", operation);
    if (!plugin.is_null()) event.plugin = shown(plugin);
    if (!operation.is_null()) event.operation = shown(operation);
    if (!id.is_null()) event.id = id.dump();
    const bool says_data = given.contains("data");
    data = says_data ? std::move(given["data"]) : std::move(given);
    has_data = says_data ? !data.is_null() : !data.empty();
    if (has_data) add_data(event.text, data);
    if (metadata.is_object()) {
      for (const auto& [name, value] : metadata.items()) add_line(event.text, "meta." + name, value);
    } else if (!metadata.is_null()) {
      add_line(event.text, "meta", metadata);
    }
    event.metadata = metadata.dump();
  } else {
    data = std::move(given);
    has_data = !data.is_null();
    if (has_data) add_data(event.text, data);
  }
  if (event.text.empty()) {
    throw Error(ErrorCode::invalid_input, "nothing to embed: it has no plugin, operation, data or metadata");
  }
  event.data = data.dump();
  event.data_hash = sha256_of(event.data);
  if (!has_data) event.data = "null";
  return event;
}

std::string event_hash(std::string_view source, std::string_view position, const Event& event) {
  if (!event.id.empty()) return hash_of("gpux event id", {source, event.id, event.text});
  return hash_of("gpux event position", {source, position, event.text});
}

std::string refusal_hash(std::string_view source, std::string_view position, std::string_view bytes) {
  return hash_of("gpux refusal", {source, position, bytes});
}

}  // namespace gpux::daemon
