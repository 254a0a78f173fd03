#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

struct GpuxTokenizer;

namespace gpux::text {

struct KeptVocabularies;

/// The position of a token in its text.
enum class Offsets : std::uint8_t { none, bytes, characters };

/// Which text of a pair is truncated if both are too long.
enum class PairTruncation : std::uint8_t { longest_first, first_only, second_only };

struct EncodeOptions {
  std::size_t max_tokens = 0;  ///< with the special ones; 0: no limit
  bool special_tokens = true;  ///< add what the model expects around the text, as [CLS] and [SEP]
  bool truncate_left = false;  ///< cut at the beginning rather than at the end
  PairTruncation truncation = PairTruncation::longest_first;
  Offsets offsets = Offsets::none;
  /// Error invalid_input where more of a text would have to be read than this; 0: no limit. Of texts of words with
  /// spaces between them only what max_tokens need is read, if the tokenizer takes words apart one by one.
  std::size_t max_bytes = 0;
};

/// A text as tokens. The spans have an element for each token and live as long as this.
class Encoding {
 public:
  Encoding(Encoding&&) noexcept;
  Encoding& operator=(Encoding&&) noexcept;
  ~Encoding();

  [[nodiscard]] std::size_t size() const noexcept { return ids().size(); }

  [[nodiscard]] std::span<const std::uint32_t> ids() const noexcept;
  [[nodiscard]] std::span<const std::uint32_t> type_ids() const noexcept;
  /// 1: added around the text; 0: of the text.
  [[nodiscard]] std::span<const std::uint32_t> special_tokens_mask() const noexcept;
  /// 0: of the text, 1: of its pair, UINT32_MAX: of neither.
  [[nodiscard]] std::span<const std::uint32_t> sequence_ids() const noexcept;
  /// A begin and an end for each token, in its own text of the pair; empty where not asked for.
  [[nodiscard]] std::span<const std::size_t> offsets() const noexcept;

 private:
  friend class Tokenizer;
  struct State;
  explicit Encoding(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A text's tokens before they are cut: the first text of many pairs, which is tokenized once. Copies share them.
class EncodedText {
 private:
  friend class Tokenizer;
  struct State;

  explicit EncodedText(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// A tokenizer.json in Hugging Face's own library. Truncation and padding in the file are ignored: each call sets them.
/// Immutable and thread-safe. Copies share one vocabulary, as do tokenizers made of the same text while one of them
/// lives.
class Tokenizer {
 public:
  /// `changes` is what the files next to tokenizer.json change in it: as gpux_tokenizer_open() takes them. Errors
  /// not_found, storage, invalid_model (it is no tokenizer, or does not go with the changes).
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json, std::string_view changes = {});
  /// A tokenizer from the content of a tokenizer.json. Error invalid_model.
  static Tokenizer from_json(std::string_view json, std::string_view changes = {});

  /// Whether they are the same one.
  bool operator==(const Tokenizer&) const = default;

  /// Tokenizes a text, or a pair, in UTF-8. Error invalid_input, also for bytes that are not UTF-8.
  [[nodiscard]] Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  [[nodiscard]] Encoding encode(std::string_view text, std::string_view pair, const EncodeOptions& options = {}) const;

  /// The first text of pairs that are encoded with the same options. Error invalid_input.
  [[nodiscard]] EncodedText encode_first(std::string_view text, const EncodeOptions& options = {}) const;
  /// encode(text, pair, options), with the text that encode_first() took.
  [[nodiscard]] Encoding encode(const EncodedText& first, std::string_view pair,
                                const EncodeOptions& options = {}) const;

  /// The text of the tokens. Error invalid_input, also for an id that is not in the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> ids, bool skip_special_tokens = true) const;

  [[nodiscard]] std::optional<std::string> token(std::uint32_t id) const;
  [[nodiscard]] std::optional<std::uint32_t> id(std::string_view token) const;
  /// Tokens there are, added ones counted.
  [[nodiscard]] std::size_t vocabulary_size() const noexcept;
  /// Special tokens that encode() adds to one text, or to a pair.
  [[nodiscard]] std::size_t added_tokens(bool is_pair) const noexcept;

 private:
  friend class TokenVocabulary;
  struct State;

  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  [[nodiscard]] Encoding encode(std::string_view text, const std::string_view* pair,
                                const EncodeOptions& options) const;
  [[nodiscard]] const GpuxTokenizer* library_tokenizer() const noexcept;
  [[nodiscard]] KeptVocabularies& vocabularies() const noexcept;
  std::shared_ptr<const State> state_;
};

}  // namespace gpux::text
