#include "gpux/generator.h"

#include <utility>

#include <fmt/format.h>

#include "generation/chat_plan.h"
#include "generation/chat_stream.h"
#include "generation/decoder_signature.h"
#include "generation/engine.h"
#include "generation/model_chat.h"
#include "gpux/error.h"
#include "model/open_generator.h"

namespace gpux {

std::string_view to_string(LoadPhase phase) noexcept {
  switch (phase) {
    case LoadPhase::reading:
      return "reading";
    case LoadPhase::session:
      return "session";
    case LoadPhase::first_run:
      return "first_run";
    case LoadPhase::ready:
      return "ready";
  }
  return "";
}

struct Generator::State {
  [[nodiscard]] generation::ChatPlan plan(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                                          const ChatOptions& options) const {
    return generation::plan_chat(
        chat.require_prompt(), engine->tokenizer(),
        {.messages = {messages.begin(), messages.end()}, .options = options, .settings = settings});
  }

  std::unique_ptr<generation::Engine> engine;
  generation::ModelChat chat;
  Verdict verdict;
};

struct GenerationStream::State {
  State(std::shared_ptr<void> loaded, generation::Engine& engine, generation::EngineRequest request)
      : model(std::move(loaded)), pieces(engine, std::move(request)) {}

  std::shared_ptr<void> model;  // outlives the stream
  generation::PieceStream pieces;
};

struct ChatStream::State {
  State(std::shared_ptr<void> loaded, generation::Engine& engine, generation::ChatPlan plan)
      : model(std::move(loaded)), deltas(engine, std::move(plan)) {}

  std::shared_ptr<void> model;  // outlives the stream
  generation::ChatDeltas deltas;
};

Generator::Generator(const std::string& model, const ModelOptions& options, const GeneratorOptions& generator) {
  if (generator.on_load) generator.on_load(LoadPhase::reading);
  const LoadRequest request = request_of(options);
  const OpenGenerator open =
      open_generator(open_model(model, options.config.string(), request), generator.draft, request);
  generation::ModelChat chat = open.read_chat();
  std::unique_ptr<generation::Engine> engine = open.load(generator);
  Verdict verdict = engine->verdict();
  state_ = std::make_shared<State>(std::move(engine), std::move(chat), std::move(verdict));
}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

Completion Generator::generate(std::string_view prompt, const GenerationSettings& settings, const Sink& sink) const {
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(state_->engine->tokenizer(), prompt);
  request.settings = settings;
  return generation::generate(*state_->engine, std::move(request), sink);
}

GenerationStream Generator::stream(std::string_view prompt, const GenerationSettings& settings) const {
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(state_->engine->tokenizer(), prompt);
  request.settings = settings;
  return GenerationStream(std::make_unique<GenerationStream::State>(state_, *state_->engine, std::move(request)));
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

ChatCompletion Generator::chat(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                               const ChatOptions& options, const ChatSink& sink) const {
  return generation::chat(*state_->engine, state_->plan(messages, settings, options), sink);
}

ChatStream Generator::stream_chat(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                                  const ChatOptions& options) const {
  return ChatStream(
      std::make_unique<ChatStream::State>(state_, *state_->engine, state_->plan(messages, settings, options)));
}

std::string Generator::chat_prompt(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  return state_->chat.require_prompt().text(messages, options);
}

bool Generator::has_chat_template() const noexcept {
  return state_->chat.prompt() != nullptr;
}

ChatStream::ChatStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

ChatStream::~ChatStream() = default;
ChatStream::ChatStream(ChatStream&&) noexcept = default;
ChatStream& ChatStream::operator=(ChatStream&&) noexcept = default;

std::optional<ChatDelta> ChatStream::next() {
  return state_->deltas.next();
}

void ChatStream::cancel() {
  state_->deltas.cancel();
}

const ChatCompletion& ChatStream::completion() const {
  if (const ChatCompletion* completion = state_->deltas.completion()) return *completion;
  throw Error(ErrorCode::usage, "the answer has not ended: next() must have given nothing");
}

std::size_t Generator::context_length() const noexcept {
  return state_->engine->context_length();
}

std::uint64_t Generator::memory_needed(std::size_t tokens) const noexcept {
  return state_->engine->memory_needed(tokens);
}

GenerationMemory Generator::memory_of(const std::string& model, std::size_t tokens, const ModelOptions& options) {
  const OpenModel open = open_model(model, options.config.string(), request_of(options));
  const std::size_t context = generation::read_model_files(open.located.onnx_file.parent_path()).context_length;
  if (tokens > context) {
    throw Error(ErrorCode::usage,
                fmt::format("tokens is {}; accepted: up to {}, the model's context", tokens, context));
  }
  return {.weight_bytes = open.info.total_bytes(),
          .cache_bytes_per_token = generation::require_decoder(open.info).cache.bytes_per_token(),
          .tokens = tokens == 0 ? context : tokens};
}

const Verdict& Generator::verdict() const noexcept {
  return state_->verdict;
}

}  // namespace gpux
