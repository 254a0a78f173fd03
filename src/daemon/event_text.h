#pragma once

#include <string>
#include <string_view>

#include "daemon/state_file.h"

namespace gpux::daemon {

/// An event, and what a model is given of it.
struct Event {
  std::string text;       ///< lines "plugin: …", "operation: …", "key: value", "meta.key: value"
  std::string id;         ///< its own, as JSON; empty: it has none
  std::string plugin;     ///< empty: it has none
  std::string operation;  ///< empty: it has none
  std::string timestamp;  ///< as JSON; "null": it has none
  std::string metadata;   ///< as JSON; "null": it has none
  std::string data;       ///< as JSON with sorted keys; "null": it has none
  std::string data_hash;  ///< SHA-256 of its data as JSON with sorted keys, of an empty object where it has none
};

/// Reads one event. An object has, all of them optional: "plugin" (or "plugin_id", "category"), "operation" (or
/// "action"), "data", "metadata" (an object), "timestamp", "id". Without "data" all its other members are the data.
/// Fields of data and metadata are sorted by the bytes of their names; a string is unchanged, anything else is JSON
/// with sorted keys. Data that is not an object is "data: …". The same event always gives the same text.
/// Error invalid_input: no JSON (RFC 8259), too deep, or nothing to embed.
Event read_event(std::string_view json, const EventLimits& limits);

/// Names an event for ever: SHA-256, in hexadecimal digits, over the source's name, the event's own id, or where it has
/// none its position in the source, and the text, each behind its length.
std::string event_hash(std::string_view source, std::string_view position, const Event& event);

/// Names what was set aside, likewise.
std::string refusal_hash(std::string_view source, std::string_view position, std::string_view bytes);

}  // namespace gpux::daemon
