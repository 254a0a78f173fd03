#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/tensor.h"

namespace gpux {

using NamedTensor = std::pair<std::string, Tensor>;

struct NpzReading {
  std::uint64_t limit_bytes = std::uint64_t{1} << 34;  ///< maximum size of all arrays together, unpacked
  /// The type to read the array of that name as (see read_npy); empty for as it is. May be null.
  std::function<std::optional<ElementType>(std::string_view)> declared;
  std::shared_ptr<const void> owner;  ///< keeps the file's bytes alive; arrays may then refer to them
};

/// Reads a NumPy .npz file: a zip archive (zip64 too, members stored or deflated, checksums verified) of .npy files,
/// whose names without ".npy" become the tensors'. Memory is asked for only as far as the limit and the member's
/// compressed size allow. Error invalid_input for anything else, resource_exhausted beyond the limit.
std::vector<NamedTensor> read_npz(std::span<const std::byte> file, const NpzReading& reading = {});

/// The tensors as a .npz file, stored as numpy.savez does (zip64), the same bytes for the same tensors.
/// Errors as append_npy; invalid_input for two tensors of one name.
std::string write_npz(std::span<const NamedTensor> tensors);

}  // namespace gpux
