#include "gpux/embedder.h"

#include <fmt/format.h>

#include "base/spelling.h"
#include "embedding/embed_all.h"
#include "gpux/error.h"
#include "library/embedder_state.h"
#include "model/open_encoder.h"

namespace gpux {
namespace {

EncoderFlags flags_of(const std::string& model, const EmbedderOptions& options) {
  EncoderFlags flags;
  flags.model = model;
  flags.load = request_of(options.model);
  flags.batching = options.batching;
  return flags;
}

}  // namespace

embedding::EmbedOptions Embedder::State::accepted(const EmbeddingOptions& given) const {
  embedding::EmbedOptions options = encoder.options;
  options.max_tokens = given.max_tokens;
  options.dimensions = given.dimensions;
  options.normalize = given.normalize;
  if (given.prompt && !given.prompt_name.empty()) {
    throw Error(ErrorCode::usage, "prompt and prompt_name are two ways to give a prompt: use one of them");
  }
  if (given.prompt) options.prompt = given.prompt;
  if (!given.prompt_name.empty()) apply_prompt(given.prompt_name, options);
  encoder.embedder->encoder().check(options);
  return options;
}

void Embedder::State::apply_prompt(const std::string& name, embedding::EmbedOptions& options) const {
  const checkpoint::SentenceModel& model = encoder.embedder->encoder().model();
  if (embedding::choose_prompt(model, name, options)) return;
  const std::vector<std::string> known = embedding::prompt_names(model);
  throw Error(ErrorCode::usage, fmt::format("there is no prompt '{}'; the model's prompts: {}", name,
                                            known.empty() ? "none" : join(known)));
}

Embedder::Embedder(const std::string& model, const EmbedderOptions& options)
    : state_(new State{open_encoder(flags_of(model, options), [](std::string_view /*line*/) {}), options.workers}) {
  if (state_->workers == 0) state_->workers = state_->encoder.workers;
}

Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

std::size_t Embedder::dimension() const noexcept {
  return state_->encoder.embedder->encoder().dimension();
}

const std::vector<std::pair<std::string, std::string>>& Embedder::prompts() const noexcept {
  return state_->encoder.embedder->encoder().model().prompts;
}

std::vector<float> Embedder::embed(std::string_view text, const EmbeddingOptions& options) const {
  return state_->encoder.embedder->embed(text, state_->accepted(options));
}

Embeddings Embedder::embed(std::span<const std::string> texts, const EmbeddingOptions& options) const {
  (void)state_->accepted(options);  // before memory is reserved
  std::vector<float> elements;
  std::size_t next = 0;
  const auto source = [&](std::string& text) {
    if (next == texts.size()) return false;
    text = texts[next++];
    return true;
  };
  const std::size_t dimension = options.dimensions == 0 ? this->dimension() : options.dimensions;
  elements.reserve(texts.size() * dimension);
  embed(
      source,
      [&](std::string_view /*text*/, std::span<const float> vector) {
        elements.insert(elements.end(), vector.begin(), vector.end());
      },
      options);
  return {std::move(elements), dimension};
}

std::uint64_t Embedder::embed(const Source& source, const Sink& sink, const EmbeddingOptions& options) const {
  return embedding::embed_all(*state_->encoder.embedder, state_->accepted(options), source, state_->workers, sink);
}

Similarity Embedder::similarity() const noexcept {
  return state_->encoder.embedder->encoder().model().similarity.value_or(Similarity::cosine);
}

const std::string& Embedder::digest() const noexcept {
  return state_->encoder.digest;
}

const Verdict& Embedder::verdict() const noexcept {
  return state_->encoder.embedder->runtime().verdict();
}

}  // namespace gpux
