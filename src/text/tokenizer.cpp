#include "text/tokenizer.h"

#include <map>
#include <mutex>
#include <utility>

#include <gpux_text.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "text/kept_vocabularies.h"
#include "text/library_message.h"

namespace gpux::text {
namespace {

GpuxText borrow(std::string_view text) noexcept {
  return {text.data(), text.size()};
}

std::string take(GpuxOwnedText& text) {
  std::string copy(text.data == nullptr ? "" : text.data, text.size);
  gpux_text_free(&text);
  return copy;
}

std::uint32_t flags_of(const EncodeOptions& options) noexcept {
  std::uint32_t flags = 0;
  if (options.special_tokens) flags |= GPUX_TEXT_SPECIAL_TOKENS;
  if (options.truncate_left) flags |= GPUX_TEXT_TRUNCATE_LEFT;
  if (options.truncation == PairTruncation::first_only) flags |= GPUX_TEXT_TRUNCATE_FIRST_ONLY;
  if (options.truncation == PairTruncation::second_only) flags |= GPUX_TEXT_TRUNCATE_SECOND_ONLY;
  if (options.offsets == Offsets::bytes) flags |= GPUX_TEXT_BYTE_OFFSETS;
  if (options.offsets == Offsets::characters) flags |= GPUX_TEXT_CHARACTER_OFFSETS;
  return flags;
}

}  // namespace

struct Encoding::State {
  GpuxEncoding encoding{};

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_encoding_free(&encoding); }
};

Encoding::Encoding(std::unique_ptr<State> state) : state_(std::move(state)) {}

Encoding::Encoding(Encoding&&) noexcept = default;
Encoding& Encoding::operator=(Encoding&&) noexcept = default;
Encoding::~Encoding() = default;

std::span<const std::uint32_t> Encoding::ids() const noexcept {
  return {state_->encoding.ids, state_->encoding.count};
}

std::span<const std::uint32_t> Encoding::type_ids() const noexcept {
  return {state_->encoding.type_ids, state_->encoding.count};
}

std::span<const std::uint32_t> Encoding::special_tokens_mask() const noexcept {
  return {state_->encoding.special, state_->encoding.count};
}

std::span<const std::uint32_t> Encoding::sequence_ids() const noexcept {
  return {state_->encoding.sequence_ids, state_->encoding.count};
}

std::span<const std::size_t> Encoding::offsets() const noexcept {
  if (state_->encoding.offsets == nullptr) return {};
  return {state_->encoding.offsets, 2 * state_->encoding.count};
}

struct Tokenizer::State {
  GpuxTokenizer* tokenizer = nullptr;
  mutable KeptVocabularies vocabularies;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_tokenizer_close(tokenizer); }
};

const GpuxTokenizer* Tokenizer::library_tokenizer() const noexcept {
  return state_->tokenizer;
}

KeptVocabularies& Tokenizer::vocabularies() const noexcept {
  return state_->vocabularies;
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view changes) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const State>> open;
  const std::string key = changes.empty() ? sha256_of(json) : sha256_of(json) + sha256_of(changes);
  // Whoever comes while another opens the same one waits for it.
  const std::lock_guard lock(mutex);
  if (const auto found = open.find(key); found != open.end()) {
    if (auto state = found->second.lock()) return Tokenizer(std::move(state));
  }
  auto state = std::make_shared<State>();
  check(gpux_tokenizer_open(borrow(json), borrow(changes), &state->tokenizer), ErrorCode::invalid_model);
  std::erase_if(open, [](const auto& other) { return other.second.expired(); });
  open[key] = state;
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& tokenizer_json, std::string_view changes) {
  try {
    return from_json(read_file(tokenizer_json), changes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model) throw;
    throw error.within({file_at(tokenizer_json)});
  }
}

Encoding Tokenizer::encode(std::string_view text, const std::string_view* pair, const EncodeOptions& options) const {
  auto state = std::make_unique<Encoding::State>();
  const GpuxText second = pair == nullptr ? GpuxText{} : borrow(*pair);
  const Message message(gpux_tokenizer_encode(state_->tokenizer, borrow(text), pair == nullptr ? nullptr : &second,
                                              flags_of(options), options.max_tokens, options.max_bytes,
                                              &state->encoding));
  if (message) {
    // These say more of what is not UTF-8.
    require_utf8(text);
    if (pair != nullptr) require_utf8(*pair);
    throw Error(ErrorCode::invalid_input, message.get());
  }
  return Encoding(std::move(state));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode(text, nullptr, options);
}

Encoding Tokenizer::encode(std::string_view text, std::string_view pair, const EncodeOptions& options) const {
  return encode(text, &pair, options);
}

struct EncodedText::State {
  GpuxEncodedText* text = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_encoded_text_free(text); }
};

EncodedText Tokenizer::encode_first(std::string_view text, const EncodeOptions& options) const {
  auto state = std::make_shared<EncodedText::State>();
  require_utf8(text);
  check(gpux_tokenizer_encode_first(state_->tokenizer, borrow(text), flags_of(options), options.max_tokens,
                                    options.max_bytes, &state->text),
        ErrorCode::invalid_input);
  return EncodedText(std::move(state));
}

Encoding Tokenizer::encode(const EncodedText& first, std::string_view pair, const EncodeOptions& options) const {
  auto state = std::make_unique<Encoding::State>();
  require_utf8(pair);
  check(gpux_tokenizer_encode_second(state_->tokenizer, first.state_->text, borrow(pair), flags_of(options),
                                     options.max_tokens, options.max_bytes, &state->encoding),
        ErrorCode::invalid_input);
  return Encoding(std::move(state));
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special_tokens) const {
  GpuxOwnedText text{};
  check(gpux_tokenizer_decode(state_->tokenizer, ids.data(), ids.size(), skip_special_tokens ? 1 : 0, &text),
        ErrorCode::invalid_input);
  return take(text);
}

std::optional<std::string> Tokenizer::token(std::uint32_t id) const {
  GpuxOwnedText text{};
  check(gpux_tokenizer_token(state_->tokenizer, id, &text), ErrorCode::internal);
  if (text.data == nullptr) return std::nullopt;
  return take(text);
}

std::optional<std::uint32_t> Tokenizer::id(std::string_view token) const {
  const std::int64_t id = gpux_tokenizer_id(state_->tokenizer, borrow(token));
  if (id < 0) return std::nullopt;
  return static_cast<std::uint32_t>(id);
}

std::size_t Tokenizer::vocabulary_size() const noexcept {
  return gpux_tokenizer_vocabulary_size(state_->tokenizer);
}

std::size_t Tokenizer::added_tokens(bool is_pair) const noexcept {
  return gpux_tokenizer_added_tokens(state_->tokenizer, is_pair ? 1 : 0);
}

}  // namespace gpux::text
