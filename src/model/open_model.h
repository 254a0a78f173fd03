#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/runtime.h"
#include "model/expected_sizes.h"
#include "model/input_files.h"
#include "model/load_settings.h"
#include "model/locate.h"
#include "pipeline/pipeline.h"
#include "project/image_input.h"
#include "runtime/session/ensemble_plan.h"

namespace gpux {

/// A model found, read and compared with its gpux.yml, with all settings resolved; not loaded.
struct OpenModel {
  LocatedModel located;
  ModelInfo info;
  LoadSettings settings;
  /// Null before open_inputs(), and where the model is given no texts.
  std::shared_ptr<const pipeline::Pipeline> pipeline;
  /// Empty before open_image_input(), and where the model is given no images.
  std::optional<ImageInput> image_input;
  /// Of an ensemble: its models in order, and how values go through them. Empty: it is one model.
  std::vector<OpenModel> steps;
  runtime::EnsemblePlan plan;

  /// Reads what makes inputs of texts and images: for those who are given some. Errors not_found, invalid_model,
  /// invalid_config.
  void open_inputs();

  /// Reads what makes inputs of images alone. Errors as of open_inputs().
  void open_image_input();

  /// Reads the inputs that the flags name. Accepts texts and images after open_inputs().
  [[nodiscard]] pipeline::Items read(const InputFlags& flags) const;

  /// The model's own inputs for one run. Error usage for texts that take several runs.
  [[nodiscard]] NamedValues own_inputs(const NamedValues& given) const;

  /// Inputs and outputs for callers: those of the pipeline if there is one, else the model's own.
  [[nodiscard]] const Signature& signature() const noexcept {
    return pipeline ? pipeline->signature() : info.signature;
  }

  /// Outputs with their labels and formats, as gpux.yml and the pipeline declare them.
  [[nodiscard]] std::vector<DeclaredValue> declared_outputs() const;

  /// Known sizes of the inputs, from size_facts(), for providers that compile for ranges of shapes.
  [[nodiscard]] SizeFacts sizes() const { return size_facts(located, info.signature); }

  /// Makes the session. `fastest` is decided here, by timing each candidate.
  [[nodiscard]] Runtime load() const;

 private:
  [[nodiscard]] Runtime load_steps() const;
};

/// `config`: another gpux.yml than the one beside the model; empty: that one.
/// Errors not_found, invalid_model, invalid_config, usage.
OpenModel open_model(const std::string& model, const std::string& config, const LoadRequest& request);
OpenModel open_model(LocatedModel located, const LoadRequest& request);

/// Resolves a MODEL argument with locate() in the user's store. `config`: path of another gpux.yml; empty: the model's
/// own.
LocatedModel locate_model(const std::string& model, const std::string& config);

/// Makes a session of the located model, with what its package has of it beside the model itself. Errors as of Runtime
/// and require_precision().
Runtime load_located(const LocatedModel& located, LoadSettings settings);

/// The pipeline that tokenizes texts into the model's inputs; null if the model takes no texts. Errors as of
/// OpenModel::open_inputs().
std::shared_ptr<const pipeline::Pipeline> open_pipeline(const LocatedModel& located, const Signature& signature);

/// The store of this user.
Store open_store();

}  // namespace gpux
