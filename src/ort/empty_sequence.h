#pragma once

#include "ort/api.h"

namespace gpux::ort {

/// The sequence without elements that an input of the declared type (a sequence, or an optional one) takes. The C
/// interface makes no such value, so a model of one node that gives it is run; its session is kept. Thread-safe.
/// Error invalid_input where the elements are not tensors; Ort::Exception where ONNX Runtime has no sequences of them.
Ort::Value empty_sequence(const Ort::TypeInfo& declared);

}  // namespace gpux::ort
