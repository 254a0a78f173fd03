#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "encoder/batch.h"

namespace gpux_encoder {

/// Which rows are wanted of the tokens that do not count.
enum class Others : std::uint8_t { none, first_of_text, all };

/// The tokens of all texts, one text behind the other; of each those that count, and then, where they are wanted, the
/// others.
struct Packed {
  std::vector<std::int64_t> ids, types, positions;
  std::vector<std::size_t> starts;   // of each text, and the end of the last
  std::vector<std::size_t> counted;  // tokens of each text that count
  std::vector<std::size_t> places;   // of each token in its text

  void add(const Batch& batch, std::size_t text, std::size_t place_in_text, std::int64_t position) {
    const std::size_t place = text * batch.length + place_in_text;
    ids.push_back(batch.ids[place]);
    types.push_back(batch.types == nullptr ? 0 : batch.types[place]);
    positions.push_back(position);
    places.push_back(place_in_text);
  }
};

Packed pack(const Batch& batch, const std::optional<std::int64_t>& padding, Others others);

}  // namespace gpux_encoder
