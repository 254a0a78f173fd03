#include "gpux/model.h"

#include "library/model_state.h"
#include "pipeline/pipeline.h"

namespace gpux {
namespace {

OpenModel opened(const std::string& model, const ModelOptions& options) {
  OpenModel open = open_model(model, options.config.string(), request_of(options));
  open.open_inputs();
  return open;
}

}  // namespace

Model::State::State(const std::string& model, const ModelOptions& options)
    : open(opened(model, options)), runtime(open.load()) {}

InferOptions Model::State::with_timeout(InferOptions options) const {
  if (!options.timeout) options.timeout = open.settings.timeout();
  return options;
}

Model::Model(const std::string& model, const ModelOptions& options) : state_(std::make_unique<State>(model, options)) {}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const std::string& Model::name() const noexcept {
  return state_->open.located.name;
}

const std::string& Model::version() const noexcept {
  return state_->open.located.version;
}

const Signature& Model::signature() const noexcept {
  return state_->open.signature();
}

NamedValues Model::infer(const NamedValues& inputs, const InferOptions& options) const {
  const InferOptions run = state_->with_timeout(options);
  const auto& pipeline = state_->open.pipeline;
  if (pipeline && pipeline->takes_text(inputs)) return pipeline::infer(*pipeline, state_->runtime, inputs, run);
  return state_->runtime.infer(inputs, run);
}

const Verdict& Model::verdict() const noexcept {
  return state_->runtime.verdict();
}

const Runtime& Model::runtime() const noexcept {
  return state_->runtime;
}

}  // namespace gpux
