#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpux/tensor.h"

/// Values as bytes in memory that two processes of the same program share. The elements of a tensor are aligned to 64
/// bytes, so that they can be used in place; strings are copied.
namespace gpux::runtime::isolation {

/// What goes to a worker for a run.
struct RunInputs {
  NamedValues values;
  std::vector<std::size_t> outputs;  ///< indices of those that are wanted
};

/// Bytes that write_values() needs.
std::size_t size_of_values(const NamedValues& values, std::span<const std::size_t> outputs = {});

/// Writes to memory that is aligned to 64 bytes and large enough.
void write_values(const NamedValues& values, std::span<const std::size_t> outputs, std::byte* memory);

/// Reads what write_values() wrote. Tensors refer to `memory` and keep `owner` alive; without an owner they are copied.
/// The memory may have been written by a process that is broken: error internal if it makes no sense.
RunInputs read_values(std::span<const std::byte> memory, const std::shared_ptr<const void>& owner);

}  // namespace gpux::runtime::isolation
