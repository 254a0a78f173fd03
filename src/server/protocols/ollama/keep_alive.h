#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "server/protocols/request_json.h"

namespace gpux::server {

/// As Ollama has it: how long a model stays loaded after the request. milliseconds::max(): until it is unloaded.
using KeepAlive = std::chrono::milliseconds;

/// Reads a duration as Go writes it: "5m", "1h30m", "1.5s"; a number alone counts seconds; less than 0
/// is KeepAlive::max(). Empty where
/// the text is none, or too long for the type. Source: Go's time.ParseDuration. Pure.
std::optional<KeepAlive> keep_alive_from(std::string_view text);

/// The member keep_alive: seconds, or such a duration; less than 0: KeepAlive::max(). Empty where it is not there.
/// RequestError where it is neither.
std::optional<KeepAlive> read_keep_alive(Members& members);

}  // namespace gpux::server
