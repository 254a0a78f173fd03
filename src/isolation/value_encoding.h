#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

/// Values in memory that two processes of the same program share. The elements of tensors are aligned to 64 bytes, so
/// that they can be used in place. All else is in the head: names, types, shapes, strings, and where the elements are.
/// A value takes as many bytes of the head as it takes decoded, so that a message is never larger than it looks.
namespace gpux::isolation {

/// Where values are in the memory.
struct ValuesPlace {
  std::uint64_t bytes = 0;  ///< from the beginning of the memory
  std::uint64_t head = 0, head_bytes = 0;
};

/// Values, ready to be written.
struct EncodedValues {
  struct Elements {
    const std::byte* data = nullptr;
    std::size_t offset = 0, size = 0;
  };

  std::vector<std::byte> head;
  std::vector<Elements> elements;  ///< to be copied; they have to live until then
  ValuesPlace place;
};

/// What goes to a worker for a run.
struct RunInputs {
  NamedValues values;
  std::vector<std::size_t> outputs;  ///< indices of those that are wanted
};

/// Outputs of a model, of which one has to be like each value.
using ExpectedValues = std::vector<const SignatureEntry*>;

/// Decides where everything goes. Tensors whose elements are in `memory` already stay there; the others come behind its
/// first `begin` bytes.
EncodedValues encode_values(const NamedValues& values, std::span<const std::size_t> outputs = {},
                            std::span<const std::byte> memory = {}, std::size_t begin = 0);

/// Writes place.bytes at most, to memory that is aligned to 64 bytes and large enough.
void write_values(const EncodedValues& values, std::byte* memory);

/// Reads what write_values() wrote. Tensors refer to `memory` and keep `owner` alive; without an owner they are copied.
/// `expected`: the values by name, kind and element type, in order; null: whatever was written. Ranks are not compared:
/// ONNX Runtime itself gives other ranks than a model declares.
///
/// The other process may be broken or hostile, and may write while this reads: what decides over lengths, types and
/// pointers is copied first, and nothing of it is read twice. Elements that are used in place may change later, and are
/// only numbers: any bits are a number. Booleans are not, and are copied and corrected. What is read takes at most
/// about twice the memory that it is read from. Error internal if the memory makes no sense, or holds other values than
/// those expected.
RunInputs read_values(std::span<const std::byte> memory, const ValuesPlace& place,
                      const std::shared_ptr<const void>& owner, const ExpectedValues* expected = nullptr);

}  // namespace gpux::isolation
