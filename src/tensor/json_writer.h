#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpux/tensor.h"

namespace gpux {

/// How NaN and the infinities, which JSON has not, are written.
enum class NonFinite : std::uint8_t {
  null,    ///< null
  string,  ///< "NaN", "Infinity", "-Infinity"
};

/// Appends `value` as one line of JSON: tensors as nested lists of their shape (rank 0: the bare element; a size of 0:
/// an empty list, what lies further in is not seen), sequences as lists, maps as objects in the order of their keys,
/// an empty optional as null.
/// Integers are exact, bools true and false; a number of a floating type has as few digits as read back to the same
/// value: as float64 for float64, as float32 for float32 and the smaller types. Strings are escaped; each byte that is
/// not part of UTF-8 becomes U+FFFD. Error invalid_input for complex types and maps whose keys are neither string nor
/// int64; resource_exhausted for a shape without elements that asks for millions of empty lists.
void append_json(std::string& out, const Value& value, NonFinite nonfinite = NonFinite::null);

/// Appends `text` in quotes, escaped as above.
void append_json_string(std::string& out, std::string_view text);

}  // namespace gpux
