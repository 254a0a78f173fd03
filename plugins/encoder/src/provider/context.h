#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "encoder/packed_encoder.h"

/// Compiled encoders, as ONNX Runtime's nodes of type EPContext
/// (https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html).
namespace gpux_cpu::encoder {

/// Whether a session writes such nodes, and where.
struct ContextOptions {
  bool enabled = false;
  bool embedded = false;        ///< the encoder in the node itself, not in a file next to the model
  std::filesystem::path model;  ///< the file that ONNX Runtime writes; empty: its default name
  std::string node_prefix;
};

/// Reads "ep.context_…" of the session.
ContextOptions context_options(const OrtSessionOptions* options);

/// Whether the node is one that this provider wrote.
bool is_context(const Ort::ConstNode& node);

/// Writes the encoder, and returns its node with these inputs and outputs. `model` is the file of the session's model;
/// it may be empty. Throws Ort::Exception.
Ort::Node make_context(const PackedEncoder& encoder, const ContextOptions& options, const std::filesystem::path& model,
                       const std::string& name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs);

/// Reads the encoder that make_context() wrote. `model` is the file that the node was read from. Throws Ort::Exception.
PackedEncoder open_context(const Ort::ConstNode& node, const std::filesystem::path& model);

}  // namespace gpux_cpu::encoder
