#pragma once

#include "gpux/model_info.h"
#include "onnx/message.h"

namespace gpux::onnx {

/// ONNX's number of an element type; MalformedMessage where there is no such type.
ElementType element_type_of(const Message& message, std::int64_t number);

/// Reads a TypeProto. MalformedMessage where it is none, or nested or ranked beyond all reason; an empty one is a
/// tensor of undefined elements and unknown rank.
ValueType read_type(Message message);

}  // namespace gpux::onnx
