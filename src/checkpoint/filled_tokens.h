#pragma once

#include <cstddef>

namespace gpux::checkpoint {

/// Texts are filled up to at most so many tokens, which are 1 MiB of ids for each text, however short.
inline constexpr std::size_t max_filled_tokens = std::size_t{1} << 17;

}  // namespace gpux::checkpoint
