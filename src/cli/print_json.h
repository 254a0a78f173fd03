#pragma once

#include <nlohmann/json.hpp>

namespace gpux::cli {

using Json = nlohmann::ordered_json;

/// Writes one JSON document in one line to standard output. Texts that are not UTF-8 get U+FFFD.
void print_json(const Json& json);

}  // namespace gpux::cli
