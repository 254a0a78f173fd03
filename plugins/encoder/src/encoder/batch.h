#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "encoder/weights.h"

namespace gpux_encoder {

/// Texts as an encoder's inputs have them: `texts` rows of `length`; what the mask leaves out is not computed.
struct Batch {
  std::size_t texts = 0, length = 0;
  const std::int64_t* ids = nullptr;
  const std::int64_t* mask = nullptr;   ///< null: all count
  const std::int64_t* types = nullptr;  ///< null: 0
};

/// A batch that this encoder does not accept: one line that names the value and what would be accepted.
class InvalidBatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws InvalidBatch for values that the model does not have, also of tokens that do not count: what is refused does
/// not depend on which results are wanted. `wants_first`: the first token of each text is read.
void require_valid(const Batch& batch, const Weights& weights, bool wants_first);

}  // namespace gpux_encoder
