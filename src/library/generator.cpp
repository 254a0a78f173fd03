#include "gpux/generator.h"

#include <mutex>
#include <utility>

#include "generation/continue_text.h"
#include "gpux/error.h"
#include "library/load_flags_of.h"
#include "model/open_model.h"

namespace gpux {

struct Generator::State {
  generation::Decoder decoder;
  generation::ModelFiles files;
  text::Tokenizer tokenizer;
  std::mutex mutex;
};

Generator::Generator(const std::string& model, const ModelOptions& options) {
  const OpenModel open = open_model(model, {}, load_flags_of(options), timeout_of(options));
  (void)generation::require_decoder(open.info);
  // What the files say is read first: loading takes longer.
  generation::ModelFiles files = generation::read_model_files(open.located.onnx_file.parent_path());
  text::Tokenizer tokenizer = text::Tokenizer::from_file(files.tokenizer);
  state_ = std::make_unique<State>(generation::Decoder(open.load()), std::move(files), std::move(tokenizer));
}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

Completion Generator::generate(std::string_view prompt, const GenerationSettings& settings, const Sink& sink) const {
  generation::check(settings);
  const std::lock_guard lock(state_->mutex);
  return generation::continue_text(state_->decoder, state_->tokenizer, state_->files, prompt, settings, sink, {});
}

std::size_t Generator::context_length() const noexcept {
  return state_->files.context_length;
}

std::uint64_t Generator::memory_needed(std::size_t tokens) const noexcept {
  return tokens * state_->decoder.bytes_per_token();
}

const Verdict& Generator::verdict() const noexcept {
  return state_->decoder.runtime().verdict();
}

std::string_view to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace gpux
