#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/chat.h"
#include "gpux/export.h"
#include "gpux/model.h"
#include "gpux/output_constraint.h"
#include "gpux/verdict.h"

namespace gpux {

/// How a text goes on. What is empty is the model's: generation_config.json, or the value in brackets.
struct GenerationSettings {
  std::optional<float> temperature;    ///< 0 to 100; 0: the token with the highest logit (0)
  std::optional<std::uint32_t> top_k;  ///< the k most probable tokens; 0: all (0)
  std::optional<float> top_p;          ///< the most probable tokens that together have this share; above 0 to 1 (1)
  std::optional<float> min_p;          ///< tokens with this share of the highest probability; 0 to 1 (0)
  std::optional<float> typical_p;      ///< locally typical tokens with this share; above 0 to 1 (1)
  std::optional<float> repetition_penalty;  ///< divides positive logits of tokens that occurred, also in the prompt;
                                            ///< above 0 (1)
  std::size_t repetition_window = 0;        ///< so many of the last tokens have the repetition penalty; 0: all
  float presence_penalty = 0;               ///< subtracted from the logits of generated tokens; -2 to 2
  float frequency_penalty = 0;              ///< the same for each time that the token was generated; -2 to 2
  std::vector<std::pair<std::uint32_t, float>> logit_bias;  ///< added to the logits of these tokens; -100 to 100
  std::optional<std::uint64_t> seed;                        ///< empty: another one each time
  std::size_t max_tokens = 0;                               ///< 0: as many as the model's context has
  std::size_t min_tokens = 0;                               ///< before these no end token and no stop ends the text
  std::vector<std::string> stop;                            ///< texts that end it; they are not part of it
  std::vector<std::uint32_t> stop_tokens;                   ///< besides the model's end tokens
  std::vector<std::string> bad_words;                       ///< texts whose tokens are not generated one after the
                                                            ///< other, alone and behind a space; not with a constraint
  bool ignores_end = false;                                 ///< the model's end tokens end nothing
  bool log_probabilities = false;                           ///< GeneratedToken::score is filled
  std::uint32_t top_log_probabilities = 0;                  ///< most probable tokens in each score; 0 to 20
  /// Completion::prompt_scores is filled, with so many most probable tokens each; 0 to 20. The prompt then runs token
  /// by token, like a text.
  std::optional<std::uint32_t> prompt_log_probabilities;
  bool prompt_only = false;           ///< no token is generated; not with max_tokens, min_tokens, a constraint
  bool shows_special_tokens = false;  ///< the text has special tokens, too
  /// Keys and values of earlier prompts serve prompts of the same salt alone; up to 1,024 bytes.
  std::string cache_salt;
  OutputConstraint constraint;  ///< the form of the text; not with ignores_end. A complete text that nothing can follow
                                ///< ends, also before min_tokens
};

/// The natural logarithm of a token's probability by the model: before penalties, temperature and what follows.
struct TokenLogProbability {
  std::uint32_t token = 0;
  float log_probability = 0;
  std::string bytes;  ///< of the token alone; may be a part of a character
};

/// A generated token and the most probable ones in its place.
struct TokenScore {
  TokenLogProbability chosen;
  std::size_t rank = 1;                            ///< 1 + the number of tokens that are more probable
  std::vector<TokenLogProbability> most_probable;  ///< the highest first
};

/// A token of a text that is being generated.
struct GeneratedToken {
  std::uint32_t token = 0;
  std::string text;  ///< what is certain after it: whole characters; may be empty, or be of earlier tokens
  std::optional<TokenScore> score;
};

/// A part of a text that is being generated: whole characters.
struct GeneratedPiece {
  std::string text;                   ///< empty only where the last tokens have none
  std::vector<std::uint32_t> tokens;  ///< since the piece before; empty where the text was held back as a possible stop
  std::vector<TokenScore> scores;     ///< of these tokens, where requested
};

/// Why a text ended.
enum class FinishReason : std::uint8_t {
  stop,       ///< an end token, a stop text, a stop token, or a constraint that nothing more satisfies
  length,     ///< max_tokens, or the context is full
  cancelled,  ///< the receiver of the pieces returned false
};

/// Name of the reason: "stop", "length", "cancelled".
GPUX_API std::string_view to_string(FinishReason reason) noexcept;

/// A generated text, why it ended, and its figures.
struct Completion {
  std::string text;
  std::string held_text;              ///< the end of `text` that no GeneratedToken had
  std::vector<std::uint32_t> tokens;  ///< without the one that ended the text
  FinishReason reason = FinishReason::length;
  std::vector<TokenScore> scores;  ///< one for each token, where requested
  /// The same for each token of the prompt. The first one has no probability: NaN.
  std::vector<TokenScore> prompt_scores;
  std::optional<std::uint32_t> end_token;   ///< the token that ended the text
  std::optional<std::uint32_t> stop_token;  ///< the same, where it is one of GenerationSettings::stop_tokens
  std::string stop_text;                    ///< of GenerationSettings::stop, the one that ended the text
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;                ///< of the prompt, whose keys and values were there
  std::size_t draft_tokens = 0;                 ///< that were guessed, by the text or a draft model, and run
  std::size_t accepted_draft_tokens = 0;        ///< of those, the ones that the model chose
  std::chrono::duration<double> queue_time{0};  ///< until its first run
  std::chrono::duration<double> time_to_first_token{0};
  std::chrono::duration<double> time{0};  ///< of all tokens, with the first one
};

/// An answer of a model.
struct ChatCompletion {
  ChatMessage message;    ///< of the role assistant: appended to the conversation, it continues it
  Completion completion;  ///< the figures; its text has the markers of reasoning and calls, too
};

/// Input iterator over the values of a stream's next().
template <typename Stream, typename Value>
class StreamIterator {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;

  StreamIterator() = default;

  explicit StreamIterator(Stream& stream) : stream_(&stream) { ++*this; }

  const Value& operator*() const { return value_; }

  StreamIterator& operator++() {
    std::optional<Value> next = stream_->next();
    is_at_end_ = !next.has_value();
    value_ = std::move(next).value_or(Value());
    return *this;
  }

  void operator++(int) { ++*this; }

  bool operator==(std::default_sentinel_t /*end*/) const { return is_at_end_; }

 private:
  Stream* stream_ = nullptr;
  Value value_;
  bool is_at_end_ = true;
};

/// A text that is being generated. Movable. One thread at a time.
class GPUX_API GenerationStream {
 public:
  /// Ends the text, if it has not ended.
  ~GenerationStream();
  GenerationStream(GenerationStream&&) noexcept;
  GenerationStream& operator=(GenerationStream&&) noexcept;

  /// Waits for the next piece; empty after the last one. Errors of Generator::generate().
  [[nodiscard]] std::optional<GeneratedPiece> next();

  /// Ends the text soon: a few pieces may still come.
  void cancel();

  /// The whole text, after next() gave nothing. Error usage before.
  [[nodiscard]] const Completion& completion() const;

  /// For range-based loops over the pieces.
  using Iterator = StreamIterator<GenerationStream, GeneratedPiece>;

  /// Reads the first piece, as next() does.
  [[nodiscard]] Iterator begin() { return Iterator(*this); }

  /// The end of the pieces.
  [[nodiscard]] static std::default_sentinel_t end() { return std::default_sentinel; }

 private:
  friend class Generator;
  struct State;
  explicit GenerationStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// An answer that is being generated. Movable. One thread at a time.
class GPUX_API ChatStream {
 public:
  /// Ends the answer, if it has not ended.
  ~ChatStream();
  ChatStream(ChatStream&&) noexcept;
  ChatStream& operator=(ChatStream&&) noexcept;

  /// Waits for the next part; empty after the last one. Errors of Generator::chat().
  [[nodiscard]] std::optional<ChatDelta> next();

  /// Ends the answer soon: a few parts may still come.
  void cancel();

  /// The whole answer, after next() gave nothing. Error usage before.
  [[nodiscard]] const ChatCompletion& completion() const;

  /// For range-based loops over the parts.
  using Iterator = StreamIterator<ChatStream, ChatDelta>;

  /// Reads the first part, as next() does.
  [[nodiscard]] Iterator begin() { return Iterator(*this); }

  /// The end of the parts.
  [[nodiscard]] static std::default_sentinel_t end() { return std::default_sentinel; }

 private:
  friend class Generator;
  struct State;
  explicit ChatStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The phases of loading a model that generates text, in order.
enum class LoadPhase : std::uint8_t {
  reading,    ///< the files next to the model: settings, tokenizer, chat template
  session,    ///< ONNX Runtime reads the weights and prepares the graph: nearly all of the time
  first_run,  ///< a run of two tokens, which reserves memory
  ready,
};

/// Name of the phase: "reading", "session", "first_run", "ready".
GPUX_API std::string_view to_string(LoadPhase phase) noexcept;

/// How many texts are generated at the same time, and in which memory.
struct GeneratorOptions {
  std::size_t max_sequences = 16;  ///< texts at the same time; 1 to 256
  std::size_t max_waiting = 256;   ///< texts that wait for one of these to end
  std::size_t context_length = 0;  ///< tokens of a text with its prompt; 0: the model's, or what the memory holds
  std::uint64_t cache_bytes = 0;   ///< of keys and values; 0: half of the memory that models leave, for all generators
  std::size_t prompt_chunk = 256;  ///< tokens of a prompt in a run, between which other texts go on; even, 2 to 65,536
  bool reuses_prefixes = true;     ///< the keys and values of earlier prompts serve prompts that begin alike
  /// Tokens are guessed by what followed the same tokens earlier in the text, and several run at once, where the
  /// provider computes each as it does alone and where it pays. Changes no token.
  bool prompt_lookup = true;
  /// A smaller model with the same tokens that guesses how texts go on, as `model` of Generator; empty: none. It has
  /// the ModelOptions of the model. Its guesses are computed as those of prompt_lookup are, where the measured times
  /// say that it pays. Changes no token. Error usage: it has other tokens, or one of both does not run on the provider
  /// "decoder".
  std::string draft = {};
  CachePrecision cache_precision = CachePrecision::automatic;  ///< of keys and values
  /// A folder that keeps keys and values of prompts for later processes, which need not compute them again; empty: none
  /// does. It is made with mode 0700, and may be shared by processes of one user. Changes no token. Refused with keys
  /// and values on a device, and without reuses_prefixes.
  std::filesystem::path prompt_cache = {};
  std::uint64_t prompt_cache_bytes = std::uint64_t{4} << 30;  ///< of all its files: those used longest ago are removed
  std::function<void(LoadPhase phase)> on_load = {};  ///< is called as each phase of loading begins, on the loading
                                                      ///< thread; what it throws ends the loading
};

/// The memory that a model takes, before it is loaded.
struct GenerationMemory {
  std::uint64_t weight_bytes = 0;           ///< as the file has them: a provider may keep them in another layout, too
  std::uint64_t cache_bytes_per_token = 0;  ///< keys and values
  std::size_t tokens = 0;                   ///< of the context that is counted

  /// Weights, and keys and values of one text that fills this context.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return weight_bytes + tokens * cache_bytes_per_token; }
};

/// Continues texts with a model that `gpux import` made of a decoder. Movable. May be used by several threads at once:
/// their texts share the runs of the model, and do not depend on each other.
class GPUX_API Generator {
 public:
  /// `model` is a folder with tokenizer.json and model.onnx, or a name in the store.
  /// Errors not_found, invalid_model (it generates no text), invalid_config, usage, resource_exhausted (memory for keys
  /// and values); of Runtime.
  explicit Generator(const std::string& model, const ModelOptions& options = {},
                     const GeneratorOptions& generator = {});
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Is given the text in pieces of whole characters, as soon as it is certain; returns false to end it.
  using Sink = std::function<bool(std::string_view piece)>;

  /// Continues `prompt`, UTF-8, as it is: without a chat template. Errors usage (a setting outside its range),
  /// invalid_input (not UTF-8, no token, longer than the context), resource_exhausted (too many wait); of
  /// Runtime::infer(). The sink is called on the calling thread; what it throws is thrown as it is.
  [[nodiscard]] Completion generate(std::string_view prompt, const GenerationSettings& settings = {},
                                    const Sink& sink = {}) const;

  /// The same, as pieces that the caller takes when it wants. What is not taken waits in memory. The model stays loaded
  /// while the stream exists.
  [[nodiscard]] GenerationStream stream(std::string_view prompt, const GenerationSettings& settings = {}) const;

  /// Is given the parts of an answer, as soon as they are certain; returns false to end it.
  using ChatSink = std::function<bool(const ChatDelta& delta)>;

  /// Answers a conversation, with the model's chat template. Errors of generate(); invalid_model (no chat template, or
  /// one that cannot be used); invalid_input (no messages, what the template refuses, tools that are not the JSON they
  /// should be). Where the sink returned false, the message has what the sink was given.
  [[nodiscard]] ChatCompletion chat(std::span<const ChatMessage> messages, const GenerationSettings& settings = {},
                                    const ChatOptions& options = {}, const ChatSink& sink = {}) const;

  /// The same, as parts that the caller takes when it wants. As stream().
  [[nodiscard]] ChatStream stream_chat(std::span<const ChatMessage> messages, const GenerationSettings& settings = {},
                                       const ChatOptions& options = {}) const;

  /// The prompt that chat() makes of these messages, UTF-8, with its special tokens. Errors as of chat().
  [[nodiscard]] std::string chat_prompt(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;

  /// Whether chat() can be used.
  [[nodiscard]] bool has_chat_template() const noexcept;

  /// Tokens of prompt and text together.
  [[nodiscard]] std::size_t context_length() const noexcept;
  /// Bytes that the keys and values of so many tokens take.
  [[nodiscard]] std::uint64_t memory_needed(std::size_t tokens) const noexcept;

  /// The memory that a model would take with a text of so many tokens (0: its whole context). Reads the files' headers
  /// and settings, and no weights. Errors not_found, invalid_model, invalid_config, usage (more than the context).
  [[nodiscard]] static GenerationMemory memory_of(const std::string& model, std::size_t tokens = 0,
                                                  const ModelOptions& options = {});

  /// Where the model runs: provider, device, precision.
  [[nodiscard]] const Verdict& verdict() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gpux
