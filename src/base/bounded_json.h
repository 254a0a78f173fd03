#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux {

/// Parses JSON that may be hostile: nlohmann's dump() and copies recurse, so that deep nesting would overflow the
/// stack. Throws nlohmann's exceptions, and Error storage above 32 levels.
template <typename Json = nlohmann::ordered_json>
Json parse_bounded_json(std::string_view text) {
  constexpr int limit_depth = 32;
  return Json::parse(text, [](int depth, typename Json::parse_event_t, const auto&) {
    if (depth > limit_depth) throw Error(ErrorCode::storage, "nested deeper than 32 levels");
    return true;
  });
}

}  // namespace gpux
