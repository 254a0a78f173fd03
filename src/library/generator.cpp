#include "gpux/generator.h"

#include <utility>

#include "generation/decoder.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "library/load_flags_of.h"
#include "model/open_model.h"

namespace gpux {

struct Generator::State {
  State(Runtime runtime, text::Tokenizer tokenizer, generation::ModelFiles files, const GeneratorOptions& options)
      : engine(std::move(runtime), std::move(tokenizer), std::move(files), options) {}

  generation::Engine engine;
};

struct GenerationStream::State {
  State(std::shared_ptr<void> loaded, generation::Engine& engine, generation::EngineRequest request)
      : model(std::move(loaded)), pieces(engine, std::move(request)) {}

  std::shared_ptr<void> model;  // outlives the stream
  generation::PieceStream pieces;
};

Generator::Generator(const std::string& model, const ModelOptions& options, const GeneratorOptions& generator) {
  const OpenModel open = open_model(model, {}, load_flags_of(options), timeout_of(options));
  (void)generation::require_decoder(open.info);
  // What the files say is read first: loading takes longer.
  generation::ModelFiles files = generation::read_model_files(open.located.onnx_file.parent_path());
  text::Tokenizer tokenizer = text::Tokenizer::from_file(files.tokenizer);
  state_ = std::make_shared<State>(open.load(), std::move(tokenizer), std::move(files), generator);
}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

Completion Generator::generate(std::string_view prompt, const GenerationSettings& settings, const Sink& sink) const {
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(state_->engine.tokenizer(), prompt);
  request.settings = settings;
  return generation::generate(state_->engine, std::move(request), sink);
}

GenerationStream Generator::stream(std::string_view prompt, const GenerationSettings& settings) const {
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(state_->engine.tokenizer(), prompt);
  request.settings = settings;
  return GenerationStream(std::make_unique<GenerationStream::State>(state_, state_->engine, std::move(request)));
}

GenerationStream::GenerationStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

GenerationStream::~GenerationStream() = default;
GenerationStream::GenerationStream(GenerationStream&&) noexcept = default;
GenerationStream& GenerationStream::operator=(GenerationStream&&) noexcept = default;

std::optional<GeneratedPiece> GenerationStream::next() {
  return state_->pieces.next();
}

void GenerationStream::cancel() {
  state_->pieces.cancel();
}

const Completion& GenerationStream::completion() const {
  if (const Completion* completion = state_->pieces.completion()) return *completion;
  throw Error(ErrorCode::usage, "the text has not ended: next() must have given nothing");
}

std::size_t Generator::context_length() const noexcept {
  return state_->engine.context_length();
}

std::uint64_t Generator::memory_needed(std::size_t tokens) const noexcept {
  return state_->engine.memory_needed(tokens);
}

const Verdict& Generator::verdict() const noexcept {
  return state_->engine.runtime().verdict();
}

}  // namespace gpux
