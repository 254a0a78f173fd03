#pragma once

#include <cstdint>
#include <filesystem>

namespace gpux::checkpoint {

/// How the scores that a masked language model gives each token become one weight per entry of the vocabulary, as
/// sentence-transformers' SpladePooling defines it: log(1 + relu(score)), and the maximum or the sum over the tokens.
struct SpladePooling {
  enum class Strategy : std::uint8_t { max, sum };

  Strategy strategy = Strategy::max;
  bool has_second_log = false;  ///< log(1 + log(1 + relu(score))), "log1p_relu"

  bool operator==(const SpladePooling&) const = default;
};

/// Reads config.json of a SpladePooling module: pooling_strategy, activation_function. Error invalid_model.
SpladePooling read_splade_pooling(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
