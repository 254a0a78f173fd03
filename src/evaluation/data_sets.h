#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::evaluation {

/// Inputs for one run, and what the model should give for them where that is known.
struct DataSet {
  std::string name;
  NamedValues inputs;
  NamedValues outputs;  ///< empty: not known
};

/// The recorded data sets in a folder, in the order of their names: test_data_set_N/input_K.pb and output_K.pb, K being
/// the place in the signature; inputs that may be left out count only where there are as many files. Empty where there
/// are none. Errors invalid_input with the file's name, storage.
std::vector<DataSet> recorded_data_sets(const std::filesystem::path& folder, const Signature& signature);

}  // namespace gpux::evaluation
