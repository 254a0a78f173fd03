#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "onnx/quantize.h"

namespace gpux::onnx {

/// The model with float16 in the place of float32 where its operators take it: weights, and what they are computed
/// with. Inputs and outputs stay as they are. Operators that want float32 (Resize, TopK, Range and the like), those of
/// other domains, nodes with subgraphs and nodes of values whose type is not known stay in float32, between casts. So
/// do float32_nodes(). Numbers beyond float16 become its largest. `left_alone` are nodes that stay, by
/// QuantizedNode::name; `quantized` lists those with weights. Pure but for reading files beside `path`, where the
/// content stands. Errors invalid_model as inspect(), and where the result would be beyond the 2 GB of an ONNX file.
QuantizedModel to_float16(std::string_view content, const std::filesystem::path& path,
                          const std::set<std::string, std::less<>>& left_alone);

/// Converts a file. Errors as MappedFile besides.
QuantizedModel to_float16(const std::filesystem::path& path, const std::set<std::string, std::less<>>& left_alone);

}  // namespace gpux::onnx
