#pragma once

#include "gpux/device_tensor.h"
#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "provider/shape_profile.h"

namespace gpux::runtime {

/// Compares inputs with the signature before ONNX Runtime sees them: unknown, missing and doubled names, types, ranks,
/// fixed sizes. `device_inputs` are inputs, too. Error invalid_input that says what is wrong with all of them.
void check_inputs(const Signature& signature, const NamedValues& inputs, const NamedDeviceTensors& device_inputs = {});

/// Error invalid_input where an input has a shape that the model was not compiled for: a provider would fail, or give
/// wrong results.
void check_compiled_shapes(const provider::ActiveProfile& profile, const NamedValues& inputs,
                           const NamedDeviceTensors& device_inputs = {});

}  // namespace gpux::runtime
