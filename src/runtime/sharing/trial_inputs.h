#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

/// Made-up requests for the trial that compares runs alone and together.
namespace gpux::runtime {

/// The sizes of all dimensions beyond the first, of each input.
using RowShapes = std::vector<Shape>;

/// One guess after the other at sizes of free dimensions that the model may take: `given`, then small primes, multiples
/// of 32, 224, and 1. Dimensions of one name have one size, unnamed ones of one position, too; "a + 1" and "a + b" are
/// sums. Small primes are different for each dimension, and none is a number of rows of the trial. Guesses whose inputs
/// would have more than 4 Mi elements a row are left out. Pure.
std::vector<RowShapes> guess_row_shapes(const Signature& signature,
                                        const std::vector<std::vector<std::pair<std::string, std::int64_t>>>& given);

/// Which numbers models accept differs: token ids, flags, counts that must not be zero.
enum class TrialNumbers : std::uint8_t {
  varied,    ///< integers 0 to 6, by the input's name 0 and 1; decimals of both signs; words
  flags,     ///< integers 0 and 1; decimals of both signs; words
  positive,  ///< integers 1; decimals in [0, 1); texts of digits
};

/// How large a request's decimals are.
enum class Magnitude : std::uint8_t { usual, large, negative, zero };

/// A request of so many rows. The same arguments give the same values; another seed gives others.
/// Inputs that are not required are left out, or, `with_optional`, made up, too.
/// Error invalid_input for types that cannot be made up.
NamedValues make_request(const Signature& signature, const RowShapes& row_shapes, std::int64_t rows,
                         TrialNumbers numbers, Magnitude magnitude, std::uint64_t seed, bool with_optional);

}  // namespace gpux::runtime
