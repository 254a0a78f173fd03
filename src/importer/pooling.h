#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpux::importer {

/// How one vector comes of the vectors of a text's tokens, as sentence-transformers defines it
/// (sentence_transformers.sentence_transformer.modules.Pooling). Several are put one behind the other.
enum class Pooling : std::uint8_t {
  cls,               ///< the first token's
  max,               ///< the largest of each element
  mean,              ///< the mean
  mean_sqrt_length,  ///< the sum by the square root of the number of tokens
  weighted_mean,     ///< the mean, in which the token at position i, from 0, counts i + 1 times
  last_token,        ///< the last token's
};

/// The pooling that "pooling_mode" of a Pooling's config.json names ("mean"); empty where there is none such.
[[nodiscard]] std::optional<Pooling> pooling_from(std::string_view name) noexcept;

/// The name that pooling_from() knows it by.
[[nodiscard]] std::string_view name_of(Pooling pooling) noexcept;

}  // namespace gpux::importer
