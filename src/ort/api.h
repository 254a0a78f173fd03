#pragma once

// The only door to ONNX Runtime's C++ wrapper. Nothing of it may be called before Core::open().
#include <onnxruntime_cxx_api.h>

#include "gpux/error.h"
#include "gpux/tensor.h"

namespace gpux::ort {

/// The process's environment. Only after Core::open().
Ort::Env& environment();

/// Translates an exception of ONNX Runtime into an Error by its code: a model it cannot read or run is invalid_model; a
/// wrong argument of a run, and a node that fails on the values it met, invalid_input; a provider or device that fails
/// provider_unavailable; no memory resource_exhausted; a stopped run interrupted; the rest internal. One line of text.
Error translate(const Ort::Exception& exception);

/// ONNX Runtime's numbers follow TensorProto's only up to 23.
ONNXTensorElementDataType to_ort(ElementType type);
ElementType from_ort(ONNXTensorElementDataType type);

/// A value that uses the tensor's memory: it must outlive the result. Strings are copied.
/// Error invalid_input for nothing, which ONNX Runtime takes only by leaving the input out, and for what it has no
/// type for.
Ort::Value wrap(const Value& value);

/// Takes ownership of the value. Numeric tensors in host memory keep its memory without a copy.
/// Error invalid_input for types gpux does not know.
Value unwrap(Ort::Value&& value);

}  // namespace gpux::ort
