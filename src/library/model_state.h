#pragma once

#include <string>

#include "gpux/model.h"
#include "model/open_model.h"

namespace gpux {

struct Model::State {
  State(const std::string& model, const ModelOptions& options);

  /// The caller's timeout, or the model's.
  [[nodiscard]] InferOptions with_timeout(InferOptions options) const;

  OpenModel open;
  Runtime runtime;
};

}  // namespace gpux
