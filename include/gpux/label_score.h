#pragma once

#include <string>

namespace gpux {

/// A label and its score.
struct LabelScore {
  std::string label;
  double score = 0;
};

}  // namespace gpux
