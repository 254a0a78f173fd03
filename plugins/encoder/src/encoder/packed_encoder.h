#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>

#include "encoder/encoder.h"
#include "encoder/shared_encoders.h"
#include "kernels/linear.h"

namespace gpux_cpu::encoder {

/// An encoder as it is kept in a file: weights in the order in which the kernels read them, so that they are used where
/// they lie, and which inputs and outputs it has.
struct PackedEncoder {
  SharedEncoders::Digest digest{};  ///< digest of the graph that it was made of
  Precision precision = Precision::fp32;
  bool has_attention_mask = false, has_token_type_ids = false, has_position_ids = false;
  bool has_vectors = false, has_hidden_states = false;
  Weights weights;
};

/// Native byte order; each list begins at a multiple of 64 bytes from the first.
void write(const PackedEncoder& encoder, std::ostream& out);

/// The weights stay where they are: `keeper` keeps `bytes`, which begin at a multiple of 64. Throws std::runtime_error
/// for what write() of this version did not make, or only a part of it.
PackedEncoder read(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keeper);

}  // namespace gpux_cpu::encoder
