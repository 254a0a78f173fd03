#pragma once

#include <optional>
#include <string>

#include "recognizer/known_facts.h"

/// Shared by attention of single operators and by attention nodes.
namespace gpux_encoder {

/// A mask adds at most this to the score of a masked key.
inline constexpr double max_masked_score = -9999;

std::size_t columns_of(const Heads& heads);

/// Empty if queries and keys do not belong together.
std::optional<AttentionScores> scores_of(const Heads& query, const Heads& key, AxisOrder order);

/// The scores plus a mask, a position bias or both; empty, with the reason in `why`, for anything else.
std::optional<AttentionScores> with_added(const AttentionScores& scores, const SymbolicTensor& added,
                                          const KnownFacts& facts, std::string& why);

/// The attention probabilities times the values.
Fact context_of(const Node& node, const AttentionScores& scores, const Heads& value, AxisOrder order);

/// The factor of a function that only multiplies its input "" by a number; empty for other functions.
std::optional<double> factor_of(const Expression& function);

}  // namespace gpux_encoder
