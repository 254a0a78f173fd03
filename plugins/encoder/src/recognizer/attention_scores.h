#pragma once

#include <optional>
#include <string>

#include "recognizer/known_facts.h"

/// What attention in steps and attention in one node share.
namespace gpux_encoder {

/// What a mask adds to scores hides keys from here on down.
inline constexpr double largest_of_hidden = -9999;

std::size_t columns_of(const Heads& heads);

/// Of queries and keys of the same rows; empty where they are not.
std::optional<Scores> scores_of(const Heads& query, const Heads& key, std::string order);

/// Scores with masks and relative positions added; empty and `why` where it is anything else.
std::optional<Scores> with_added(const Scores& scores, const Field& added, const Reading& reading, std::string& why);

/// Values mixed by shares.
Meaning mixed(const Node& node, const Scores& scores, const Heads& value, std::string order);

/// A number that input "" is multiplied by, and nothing else.
std::optional<double> factor_of(const Expression& function);

}  // namespace gpux_encoder
