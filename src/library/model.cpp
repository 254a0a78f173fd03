#include "gpux/model.h"

#include "library/model_state.h"
#include "model/run_items.h"

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
  return run_item(state_->open, state_->runtime, inputs, state_->with_timeout(options));
}

std::vector<NamedValues> Model::batch_infer(std::span<const NamedValues> items, const InferOptions& options,
                                            std::uint64_t batch_limit) const {
  return run_items(state_->open, state_->runtime, items, state_->with_timeout(options), batch_limit);
}

const Verdict& Model::verdict() const noexcept {
  return state_->runtime.verdict();
}

const Runtime& Model::runtime() const noexcept {
  return state_->runtime;
}

}  // namespace gpux
