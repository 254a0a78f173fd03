#pragma once

#include <string_view>

#include "server/models/served_model.h"

namespace gpux::server::tei {

/// Whether the body is an object with "inputs", which is no input of the model. Linear; does not throw.
bool has_inputs_member(const ServedModel& model, std::string_view body);

}  // namespace gpux::server::tei
