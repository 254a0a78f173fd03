#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "server/models/model_source.h"

namespace gpux::server {

/// The sources as they are now. That they cannot be listed is logged once per reason, and when they can be again. On
/// one thread.
class SourceList {
 public:
  explicit SourceList(std::function<std::vector<ModelSource>()> look) : look_(std::move(look)) {}

  /// Fills `there`, or returns why it cannot.
  std::optional<Error> look(std::vector<ModelSource>& there);

 private:
  std::function<std::vector<ModelSource>()> look_;
  std::string problem_;  // as it was logged last
};

/// The name of the model that `requested` means among these sources: itself, or the one it is an alias of; itself where
/// there is none. Error usage where it is an alias of several.
std::string name_among(const std::vector<ModelSource>& sources, const std::string& requested);

}  // namespace gpux::server
