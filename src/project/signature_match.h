#pragma once

#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "project/project_file.h"

namespace gpux {

/// All differences between what gpux.yml declares and what the model takes and gives, each one sentence that begins
/// with the place in the file. Empty where they agree: every declared name is there with its type, its rank and the
/// same size wherever both fix one, and no input that the model insists on is left out of declared inputs.
std::vector<std::string> compare(const ProjectFile& project, const Signature& signature);

/// The first difference that prevents another file of the model from replacing it: an input or output that only one
/// has, or of another type or size. Empty where there is none.
std::string difference(const Signature& model, const Signature& other);

/// Error invalid_config that lists them all, where there are any.
void require_match(const ProjectFile& project, const Signature& signature);

}  // namespace gpux
