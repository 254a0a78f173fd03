#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::runtime {

/// An input whose free sizes beyond the first may differ among the requests of a run.
struct PaddedInput {
  std::string name;
  Tensor fill;                          ///< one element of the input's type: pads shorter values
  std::vector<std::size_t> dimensions;  ///< the free ones, never the first
};

/// A dimension of an input or output.
struct DimensionPlace {
  std::string value;  ///< the input's or output's name
  std::size_t dimension = 0;
};

/// A named size ("seq") that may differ among requests, and where the model has it.
struct PaddedSize {
  std::vector<DimensionPlace> inputs, outputs;
};

/// How requests of different sizes share a run of one model. Immutable once made; read from any thread.
struct Padding {
  std::vector<PaddedInput> inputs;
  std::vector<PaddedSize> sizes;  ///< those that have a name
  bool is_computed = true;        ///< false: the model's provider leaves out what the mask does, and it costs nothing
};

/// Reads a setting: names of inputs with the number, as it is written, to fill them up with. `key` is what the setting
/// is called ("serving.padding").
/// Error invalid_config that says in one line all that is wrong, each by its key: a model whose requests cannot share
/// runs, no such input, one without a free size beyond the first, a type that cannot be filled, a number that it does
/// not hold, a named size that another input has too and that is not in the setting, or that is the batch's own.
Padding read_padding(const std::vector<std::pair<std::string, std::string>>& setting, const Signature& signature,
                     std::string_view key);

/// The input of that name, or null where it is not padded.
const PaddedInput* padded_input(const Padding& padding, std::string_view name) noexcept;

/// The item's own value of a padded size; empty if it has none of the inputs with this size.
std::optional<std::int64_t> own_size(const PaddedSize& size, const NamedValues& item) noexcept;

/// Whether the item may be filled up: it has an element in each input, and inputs agree in the sizes that they share by
/// name. Others broadcast, or fail, by sizes that filling up would change.
bool can_be_padded(const NamedValues& item, const Padding& padding) noexcept;

}  // namespace gpux::runtime
