#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "ort/session.h"

namespace gpux::runtime {

/// Whether a value of the one type may be one of the other: what is left open fits anything. Pure.
bool may_go_on(const ValueType& given, const ValueType& taken);

/// Inputs and outputs for callers of a model with a model `before` and one `after` it (null: none). Outputs of a step
/// are passed on by name: to the model what `before` gives, to `after` what the model and `before` give. Inputs that
/// none of them gives are the callers'; the last step's outputs are theirs. Pure. Error invalid_config where a step
/// gives nothing that the next takes, or something of another type.
Signature with_steps(const Signature& model, const Signature* before, const Signature* after);

/// The signature with the steps of options.before and options.after. Errors of ModelInspector, too.
Signature with_steps(const Signature& model, const LoadOptions& options);

/// The sessions of the steps, on the CPU. Runs may happen on several threads at once.
class Steps {
 public:
  /// Nothing where there are none. Errors not_found, storage, invalid_model.
  explicit Steps(const LoadOptions& options);

  [[nodiscard]] explicit operator bool() const noexcept { return before_ || after_; }

  /// Runs `model` between them. `outputs`: indices into output_names(model). Errors as of Session::run.
  [[nodiscard]] NamedValues run(const ort::Session& model, const NamedValues& inputs,
                                const std::vector<std::size_t>& outputs, ort::RunHandle* handle = nullptr) const;

  /// Names of the last step's outputs.
  [[nodiscard]] const std::vector<std::string>& output_names(const ort::Session& model) const noexcept;

 private:
  std::optional<ort::Session> before_, after_;
};

}  // namespace gpux::runtime
