#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "gpux/error.h"

namespace gpux {

/// Parses JSON that may be hostile, in linear time. nlohmann's dump() and copies recurse, so that deep nesting would
/// overflow the stack; an ordered_json compares each key with all the keys before it in the object, so that a file of
/// 10 MB would take minutes. Throws nlohmann's exceptions, and Error storage above 32 levels and, for ordered_json,
/// above 1024 keys of one object. Defined for nlohmann::json and nlohmann::ordered_json.
template <typename Json = nlohmann::json>
Json parse_bounded_json(std::string_view text);

extern template nlohmann::json parse_bounded_json(std::string_view text);
extern template nlohmann::ordered_json parse_bounded_json(std::string_view text);

}  // namespace gpux
