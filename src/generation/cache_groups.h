#pragma once

#include <cstddef>

namespace gpux::generation {

/// Rows of keys and values that a device has in one block of memory, and a run that is to continue some of them. Those
/// that it does not continue have one token each, which nobody reads.
struct GroupRun {
  std::size_t rows = 0;             ///< of the group
  std::size_t capacity = 0;         ///< positions of a row
  std::size_t wanted_rows = 0;      ///< that the run continues
  std::size_t wanted_capacity = 0;  ///< positions that it needs
  std::size_t tokens = 0;           ///< of each row that it continues
  bool has_room = true;             ///< each other row has a position more, and the device the memory to compute it

  bool operator==(const GroupRun&) const = default;
};

/// Whether the run takes the group as it is: the rows that it does not continue cost less than a copy of the others.
/// Pure.
bool runs_as_is(const GroupRun& run) noexcept;

/// The positions of a group whose longest row has so many: whole blocks, so that few tokens need a copy. Pure.
std::size_t capacity_for(std::size_t tokens) noexcept;

/// Whether so few rows of a group are used that they are copied to a smaller one. Pure.
bool is_sparse(std::size_t rows, std::size_t used) noexcept;

}  // namespace gpux::generation
