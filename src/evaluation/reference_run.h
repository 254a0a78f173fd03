#pragma once

#include <memory>
#include <string>

#include "gpux/runtime.h"
#include "model/open_model.h"

namespace gpux::evaluation {

/// The provider whose answers are taken for right. The CPU's are computed here, since every ONNX Runtime has that
/// provider; any other's by `gpux run` in a process of its own, since it may need another ONNX Runtime than the one
/// that is open.
class ReferenceRun {
 public:
  /// Make it after the Runtime it is to be compared with, which decides what ONNX Runtime is opened.
  /// Errors as Runtime.
  ReferenceRun(const OpenModel& model, std::string provider);

  /// Errors as Runtime; provider_unavailable where the provider does not run.
  [[nodiscard]] NamedValues infer(const NamedValues& inputs, const InferOptions& options);

  /// The providers that held the nodes, most first: "cpu", "openvino+cpu". Known after a run.
  [[nodiscard]] const std::string& active() const noexcept { return active_; }

 private:
  [[nodiscard]] NamedValues infer_in_child(const NamedValues& inputs, const InferOptions& options);

  const OpenModel* model_;
  std::string provider_;
  std::unique_ptr<Runtime> here_;
  std::string active_;
};

}  // namespace gpux::evaluation
