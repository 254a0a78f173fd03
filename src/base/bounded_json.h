#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux {

/// Parses JSON that may be hostile. nlohmann's dump() and copies recurse, so that deep nesting would overflow the
/// stack; an ordered_json compares each key with all the keys before it in the object, so that a file of 10 MB would
/// take minutes. Throws nlohmann's exceptions, and Error storage above 32 levels and, for ordered_json, above 1024 keys
/// of one object.
template <typename Json = nlohmann::json>
Json parse_bounded_json(std::string_view text) {
  using Event = typename Json::parse_event_t;
  constexpr int max_depth = 32;
  constexpr std::size_t max_ordered_keys = 1024;
  std::array<std::size_t, max_depth + 2> keys{};  // of the object that is open at each level
  return Json::parse(text, [&](int depth, [[maybe_unused]] Event event, const auto&) {
    if (depth > max_depth) throw Error(ErrorCode::storage, "nested deeper than 32 levels");
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      const auto level = static_cast<std::size_t>(depth);
      if (event == Event::object_start) keys.at(level + 1) = 0;
      if (event == Event::key && ++keys.at(level) > max_ordered_keys) {
        throw Error(ErrorCode::storage, "an object of more than 1024 keys");
      }
    }
    return true;
  });
}

}  // namespace gpux
