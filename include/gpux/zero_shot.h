#pragma once

#include <string>
#include <vector>

namespace gpux {

/// The labels of the caller's choice that texts are classified by.
struct ZeroShotOptions {
  std::vector<std::string> labels;                          ///< at least one, none twice
  std::string hypothesis_template = "This example is {}.";  ///< {} is the label
  bool multi_label = false;                                 ///< each label is judged for itself; else they sum up to 1
};

}  // namespace gpux
