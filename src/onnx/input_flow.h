#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gpux::onnx {

/// How the outputs of a model depend on its inputs, found in the graph alone: nothing is run, and no weight is read.
struct InputFlow {
  /// A node computes an output from what an input holds, or from a size of an input that is free. Otherwise all outputs
  /// are inputs, or known when the model is loaded.
  bool reaches_outputs = false;
  /// An operator whose results have sizes that follow from what the inputs hold (NonZero, StringSplit, a Reshape to
  /// sizes that were computed), that computes as often as they say (Loop), or that looks for something in texts, and
  /// whose results an output follows from. With several requests in a run, all of them decide. Empty: there is none.
  std::string content_operator;
  /// An operator of a domain that gpux does not know, which an input goes into and an output follows from. Empty: none.
  std::string foreign_operator;
};

/// The flow of inputs in a model that inspect() takes. Subgraphs and local functions are followed, up to 262,144 nodes
/// in all: of a model with more, every output is taken to follow from a content_operator. Error invalid_model where it
/// is damaged.
InputFlow input_flow(std::string_view content, const std::filesystem::path& path);

/// Reads a file. Errors as MappedFile besides.
InputFlow input_flow(const std::filesystem::path& path);

}  // namespace gpux::onnx
