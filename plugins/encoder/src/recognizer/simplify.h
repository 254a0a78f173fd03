#pragma once

#include <vector>

#include "recognizer/expression.h"

namespace gpux_cpu::encoder {

/// A simpler expression than the operation of these arguments, not all of which are known; null if there is none. May
/// swap the arguments.
ExpressionPointer shortened(Operation operation, ElementType element_type, std::vector<ExpressionPointer>& arguments);

}  // namespace gpux_cpu::encoder
