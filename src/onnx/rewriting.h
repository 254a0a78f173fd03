#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "gpux/error.h"
#include "gpux/model_info.h"
#include "onnx/message.h"
#include "onnx/tensor_data.h"
#include "onnx/tensor_header.h"

/// Common parts of functions that rewrite a model.
namespace gpux::onnx {

/// Since this version initializers need not be inputs too, and those that are can be given by callers.
inline constexpr std::int64_t first_ir_with_overridable_initializers = 4;

/// Above this size a model is not rewritten in memory: what is added stays within the 2 GB of a message.
inline constexpr std::uint64_t max_rewritten_bytes = 1'500'000'000;

/// A ModelProto without its graph, of at least that version; and the bytes of the graph.
struct ModelParts {
  std::string head;
  std::string_view graph;
};

/// Splits a model into its graph and the rest. Error MalformedMessage.
ModelParts split_model(std::string_view content);

/// Ends the head with the key and length of the graph that follows it as the last field.
void append_graph_key(std::string& head, std::string_view graph);
void append_graph_key(std::string& head, std::uint64_t graph_bytes);

/// Checks the external data. Error invalid_model if a file next to the model is not there or too short.
void require_external_files(const ModelInfo& info, const std::filesystem::path& path);

/// Error invalid_model where an ONNX file cannot hold so many bytes: "`what` it would still be beyond the 2 GB …".
void require_fitting(std::uint64_t bytes, std::string_view what);

/// Appends the initializer to a graph unchanged, except that external data is included.
void append_initializer(std::string& graph, std::string_view tensor, const TensorHeader& header, TensorData& data);

/// The error for a damaged file.
Error damaged_model(const std::filesystem::path& path, const MalformedMessage& reason, std::string_view content);

}  // namespace gpux::onnx
