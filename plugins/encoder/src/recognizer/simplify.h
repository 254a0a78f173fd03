#pragma once

#include <vector>

#include "recognizer/expression.h"

namespace gpux_encoder {

/// What follows without all arguments being known; null where nothing does. May swap the arguments.
ExpressionPointer shortened(Operation operation, ElementType element_type, std::vector<ExpressionPointer>& arguments);

}  // namespace gpux_encoder
