#include "gpux/generator.h"

#include <filesystem>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "embedding/open_tokenizer.h"
#include "generation/chat_plan.h"
#include "generation/chat_prompt.h"
#include "generation/chat_stream.h"
#include "generation/decoder.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "model/open_model.h"

namespace gpux {

namespace {

// A model without a chat template, or with one that cannot be used, still continues texts.
class KeptChatPrompt {
 public:
  explicit KeptChatPrompt(const std::filesystem::path& folder) : kept_(read(folder)) {}

  [[nodiscard]] bool exists() const noexcept { return std::holds_alternative<generation::ChatPrompt>(kept_); }

  [[nodiscard]] const generation::ChatPrompt& get() const {
    if (const auto* missing = std::get_if<Error>(&kept_)) throw Error(*missing);
    return std::get<generation::ChatPrompt>(kept_);
  }

 private:
  using Kept = std::variant<generation::ChatPrompt, Error>;

  static Kept read(const std::filesystem::path& folder) {
    try {
      return generation::ChatPrompt::from_folder(folder);
    } catch (const Error& error) {
      return error;
    }
  }

  Kept kept_;
};

}  // namespace

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
  State(Runtime runtime, text::Tokenizer tokenizer, generation::ModelFiles files, KeptChatPrompt kept,
        const GeneratorOptions& options)
      : engine(std::move(runtime), std::move(tokenizer), std::move(files), options),
        chat(std::move(kept)),
        verdict(engine.verdict()) {}

  [[nodiscard]] generation::ChatPlan plan(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                                          const ChatOptions& options) const {
    return generation::plan_chat(
        chat.get(), engine.tokenizer(),
        {.messages = {messages.begin(), messages.end()}, .options = options, .settings = settings});
  }

  generation::Engine engine;
  KeptChatPrompt chat;
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
  const auto begin = [&](LoadPhase phase) {
    if (generator.on_load) generator.on_load(phase);
  };
  begin(LoadPhase::reading);
  const OpenModel open = open_model(model, options.config.string(), request_of(options));
  (void)generation::require_decoder(open.info);
  const std::filesystem::path folder = open.located.onnx_file.parent_path();
  // What the files say is read first: loading takes longer.
  generation::ModelFiles files = generation::read_model_files(folder);
  text::Tokenizer tokenizer = embedding::open_tokenizer(files.tokenizer);
  KeptChatPrompt chat(folder);
  begin(LoadPhase::session);
  Runtime runtime = open.load_decoder();
  begin(LoadPhase::first_run);
  state_ =
      std::make_shared<State>(std::move(runtime), std::move(tokenizer), std::move(files), std::move(chat), generator);
  begin(LoadPhase::ready);
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

ChatCompletion Generator::chat(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                               const ChatOptions& options, const ChatSink& sink) const {
  return generation::chat(state_->engine, state_->plan(messages, settings, options), sink);
}

ChatStream Generator::stream_chat(std::span<const ChatMessage> messages, const GenerationSettings& settings,
                                  const ChatOptions& options) const {
  return ChatStream(
      std::make_unique<ChatStream::State>(state_, state_->engine, state_->plan(messages, settings, options)));
}

std::string Generator::chat_prompt(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  return state_->chat.get().text(messages, options);
}

bool Generator::has_chat_template() const noexcept {
  return state_->chat.exists();
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
  return state_->engine.context_length();
}

std::uint64_t Generator::memory_needed(std::size_t tokens) const noexcept {
  return state_->engine.memory_needed(tokens);
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
