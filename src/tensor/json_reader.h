#pragma once

#include <string_view>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux {

/// Reads one JSON value into what `type` declares, straight from the text: no document is built.
///
/// Tensors: a number (rank 0) or lists in lists, whose nesting is the declared rank and whose lengths are the fixed
/// dimensions; where the rank is not declared it is that of the text. An empty list has size 0, its dimensions further
/// in their declared size or 0.
/// - Integers (and bool: true, false, 0, 1) take numbers that are whole, however written (2, 2.0, 2e0), and fit.
/// - Floating types take the value nearest to the decimal, rounded once, ties to even; what would round beyond the
///   largest finite value does not fit. "NaN", "Infinity", "-Infinity", in quotes or bare, where the type has them.
/// - Strings take strings in UTF-8.
/// Sequences: a list. Maps: an object, whose names are the keys (integers in quotes for int64). Optionals: null or what
/// they hold. Complex and sparse tensors and opaque values have no JSON form.
///
/// Error invalid_input for everything else, with its place: "input 'x': [1][2]: 300 does not fit uint8 (0 to 255)".
/// `name` is the input's name. The text must hold the value and nothing more. Work and memory are linear in the text.
Value read_json_value(std::string_view json_text, const ValueType& type, std::string_view name);

}  // namespace gpux
