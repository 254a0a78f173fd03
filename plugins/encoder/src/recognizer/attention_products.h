#pragma once

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {

/// A matrix product times `factor` that is no projection: queries times keys, probabilities times values, or the sum of
/// unmasked rows. Unknown{""} for all others.
Fact attention_product(const Node& node, const SymbolicTensor& left, const SymbolicTensor& right, double factor,
                       KnownFacts& facts);

[[nodiscard]] SymbolicTensor with_last_two_swapped(const SymbolicTensor& tensor);

}  // namespace gpux_cpu::encoder
