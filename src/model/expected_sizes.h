#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "model/locate.h"

namespace gpux {

/// Facts about the sizes of a model's inputs that its signature does not have.
struct SizeFacts {
  std::optional<std::int64_t> max_rows;  ///< that share a run
  std::string rows_from;                 ///< the setting that says so
  bool reads_texts = false;              ///< some inputs take tokens
  std::size_t max_tokens = 0;            ///< of a text; 0: no limit
  bool fills_up = false;                 ///< every text has max_tokens

  /// Images of one size that an input takes.
  struct Images {
    std::string input;
    std::size_t height_dimension = 0, width_dimension = 0;
    std::int64_t height = 0, width = 0;
  };

  std::optional<Images> images;

  /// Sizes that gpux.yml declares where the model's are free: input, dimension, size.
  struct Declared {
    std::string input;
    std::size_t dimension = 0;
    std::int64_t size = 0;
  };

  std::vector<Declared> declared;
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> warm_up;  ///< serving.warm_up
};

/// The sizes of the free dimensions that follow from the facts: rows in the first dimension, if all inputs and outputs
/// have the same free one; tokens in the second one of inputs that take tokens. Batches of texts have the bounds of
/// accelerators. Pure.
std::vector<ExpectedSize> expected_sizes(const Signature& signature, const SizeFacts& facts);

/// Reads the facts from gpux.yml and the settings next to the model. What cannot be read is not known.
SizeFacts size_facts(const LocatedModel& located, const Signature& signature);

}  // namespace gpux
