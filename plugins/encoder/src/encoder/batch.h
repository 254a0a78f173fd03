#pragma once

#include <cstddef>
#include <cstdint>

#include "encoder/weights.h"
#include "kernels/run_failure.h"

namespace gpux_cpu::encoder {

/// The inputs of an encoder: arrays of [batch_size, sequence_length]. Masked tokens are not computed.
struct Batch {
  std::size_t batch_size = 0, sequence_length = 0;
  const std::int64_t* input_ids = nullptr;
  const std::int64_t* attention_mask = nullptr;  ///< null: all tokens are unmasked
  const std::int64_t* token_type_ids = nullptr;  ///< null: 0
  const std::int64_t* position_ids = nullptr;    ///< position ids, for PositionIds::input
};

/// Throws InvalidInput for values that the model does not have, also of masked tokens: what is refused does not
/// depend on the requested results. `reads_first_token`: the first token of each text is read.
void require_valid(const Batch& batch, const Weights& weights, bool reads_first_token);

}  // namespace gpux_cpu::encoder
