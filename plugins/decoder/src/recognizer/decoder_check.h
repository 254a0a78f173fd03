#pragma once

#include "recognizer/graph_index.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {

/// Throws NotRecognized unless the sizes of all parts fit each other, and products that read the same rows have weights
/// of the same form.
void require_fitting_sizes(const RecognizedDecoder& decoder);

/// Throws NotRecognized if a value that the understood nodes make for each other is read by others, or is an output of
/// the model.
void require_values_inside(const RecognizedDecoder& decoder, const GraphIndex& index);

}  // namespace gpux_cpu::decoder
