#pragma once

#include "gpux/model_info.h"
#include "server/protocols/openapi/schema.h"

namespace gpux::server::openapi {

/// A value as JSON has it: lists in lists, in the declared sizes. In an answer, numbers that JSON has not are null.
Json value_schema(const ValueType& type, bool is_answer);

}  // namespace gpux::server::openapi
