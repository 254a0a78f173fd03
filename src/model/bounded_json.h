#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux {

/// Parses JSON that may be hostile. Throws nlohmann's exceptions, and Error storage above 32 levels.
inline nlohmann::ordered_json parse_bounded_json(std::string_view text) {
  constexpr int limit_depth = 32;
  return nlohmann::ordered_json::parse(text, [](int depth, nlohmann::ordered_json::parse_event_t, const auto&) {
    if (depth > limit_depth) throw Error(ErrorCode::storage, "nested deeper than 32 levels");
    return true;
  });
}

}  // namespace gpux
