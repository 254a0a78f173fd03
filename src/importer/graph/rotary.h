#pragma once

#include <cstddef>
#include <string>

#include "importer/architecture.h"
#include "importer/graph/graph_context.h"

namespace gpux::importer {

/// Rotates the queries or keys of all heads, [batch, heads, sequence, head_size], by the table of that index.
///
/// Pattern: angles [sequence, dimensions / 2]: Mul(Unsqueeze(Cast(Range(0, sequence, 1)), 1), frequencies); cosines and
/// sines [sequence, dimensions]: Cos and Sin of Concat(angles, angles), times the attention factor where it is not 1.
/// rotated: Add(Mul(x, cosines), Mul(Concat(Neg(Slice(x, second half)), Slice(x, first half)), sines)), of the first
/// `dimensions` elements of a head; the others are concatenated behind.
std::string rotated(GraphContext& context, const Transformer& transformer, std::size_t table, const std::string& heads);

}  // namespace gpux::importer
