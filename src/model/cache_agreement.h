#pragma once

#include "generation/quantization_gate.h"
#include "model/open_model.h"

namespace gpux {

/// How far keys and values in int8 change what a decoder predicts on recorded texts, beside keys and values as in its
/// file: both are loaded, one after the other. Errors as of open_generator(), OpenModel::load() and
/// generation::predict().
generation::QuantizationAgreement int8_cache_agreement(const OpenModel& decoder);

}  // namespace gpux
