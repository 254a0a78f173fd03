#pragma once

// The C interface of the Rust crate gpux-text: Hugging Face's `tokenizers`, which defines what right is, llguidance,
// which tells the tokens that may come next in a text of a given form, and chat templates. Every function may be called
// from any thread; a tokenizer or template is never changed once it is open, so that many may use one at once.
// Functions that can fail return null, or a message in UTF-8 to be given back by gpux_text_free_message().

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct GpuxTokenizer GpuxTokenizer;

/// UTF-8 that its owner keeps. Other bytes are an error, and the text of no token.
typedef struct GpuxText {
  const char* data;
  size_t size;
} GpuxText;

enum {
  GPUX_TEXT_SPECIAL_TOKENS = 1,        ///< add what the model expects around the text, as [CLS] and [SEP]
  GPUX_TEXT_TRUNCATE_LEFT = 2,         ///< cut at the beginning rather than at the end
  GPUX_TEXT_TRUNCATE_FIRST_ONLY = 4,   ///< of a pair; default: always the longer one
  GPUX_TEXT_TRUNCATE_SECOND_ONLY = 8,  ///< of a pair
  GPUX_TEXT_BYTE_OFFSETS = 16,
  GPUX_TEXT_CHARACTER_OFFSETS = 32,  ///< in Unicode code points
};

/// All arrays have `count` elements but `offsets`, which has a begin and an end for each token, or is null.
typedef struct GpuxEncoding {
  size_t count;
  const uint32_t* ids;
  const uint32_t* type_ids;
  const uint32_t* special;       ///< 1: added around the text, 0: of the text
  const uint32_t* sequence_ids;  ///< 0: of the text, 1: of its pair, UINT32_MAX: of neither
  const size_t* offsets;         ///< into the text, or into the pair where the token is of that
  void* owner;
} GpuxEncoding;

typedef struct GpuxOwnedText {
  const char* data;
  size_t size;
  void* owner;
} GpuxOwnedText;

/// Opens what tokenizer.json holds. Its own truncation and padding are left out: each encoding says what it wants.
/// `changes` is empty, or a JSON object of what the files next to it change, each member optional:
///   "bert_normalizer": {"lowercase", "strip_accents", "handle_chinese_chars"}: of the BertNormalizer, if it has one
///   "required_lowercase": true, false: an error where the normalizer has a Lowercase or has none
///   "lowercase": true: a Lowercase comes before the normalizer, unless it has one
///   "add_prefix_space": true, false: of the ByteLevel pre-tokenizer, if it has one
///   "split_special_tokens": true: special tokens in a text are text
///   "added_tokens": [{"content", "single_word", "lstrip", "rstrip", "normalized", "special"}], by id
///   "special_tokens": ["[CLS]"]: tokens of the vocabulary that are special, if none of that text is added yet
char* gpux_tokenizer_open(GpuxText json, GpuxText changes, GpuxTokenizer** tokenizer);
void gpux_tokenizer_close(GpuxTokenizer* tokenizer);

/// Encodes a text, or a text and its pair (null: none), to at most `max_tokens` tokens with the special ones (0: no
/// limit). Of a long text no more is read than these tokens need, where the tokenizer takes words apart one by one; a
/// text of which more than `max_bytes` (0: no limit) would have to be read is an error.
/// The result is to be given back by gpux_encoding_free().
char* gpux_tokenizer_encode(const GpuxTokenizer* tokenizer, GpuxText text, const GpuxText* pair, uint32_t flags,
                            size_t max_tokens, size_t max_bytes, GpuxEncoding* encoding);
void gpux_encoding_free(GpuxEncoding* encoding);

/// The first text of many pairs, encoded once; then each pair as by gpux_tokenizer_encode() with the same arguments.
typedef struct GpuxEncodedText GpuxEncodedText;
char* gpux_tokenizer_encode_first(const GpuxTokenizer* tokenizer, GpuxText text, uint32_t flags, size_t max_tokens,
                                  size_t max_bytes, GpuxEncodedText** first);
char* gpux_tokenizer_encode_second(const GpuxTokenizer* tokenizer, const GpuxEncodedText* first, GpuxText pair,
                                   uint32_t flags, size_t max_tokens, size_t max_bytes, GpuxEncoding* encoding);
void gpux_encoded_text_free(GpuxEncodedText* first);

/// The text of tokens; to be given back by gpux_text_free(). An id that is not in the vocabulary
/// is an error.
char* gpux_tokenizer_decode(const GpuxTokenizer* tokenizer, const uint32_t* ids, size_t count, int skip_special,
                            GpuxOwnedText* text);

/// The token's text; `data` is null where there is no such id.
char* gpux_tokenizer_token(const GpuxTokenizer* tokenizer, uint32_t id, GpuxOwnedText* text);
void gpux_text_free(GpuxOwnedText* text);

/// The token's id; -1 where there is none.
int64_t gpux_tokenizer_id(const GpuxTokenizer* tokenizer, GpuxText token);

/// Tokens there are, added ones counted.
size_t gpux_tokenizer_vocabulary_size(const GpuxTokenizer* tokenizer);

/// Special tokens that are added to one text, or to a pair.
size_t gpux_tokenizer_added_tokens(const GpuxTokenizer* tokenizer, int is_pair);

typedef struct GpuxTemplate GpuxTemplate;

/// What kind of failure the functions for templates report besides their message.
enum {
  GPUX_TEMPLATE_BROKEN = 1,          ///< no Jinja, above the limit of size, or it uses what is not supported
  GPUX_TEMPLATE_RAISED = 2,          ///< it called raise_exception(); the message is its own
  GPUX_TEMPLATE_MISFIT = 3,          ///< the values are not JSON, or not what the template takes
  GPUX_TEMPLATE_TOO_MANY_STEPS = 4,  ///< more steps than the size of the values explains
  GPUX_TEMPLATE_TOO_LONG = 5,        ///< the text is above `max_bytes`
};

/// Compiles a chat template: Jinja as transformers' apply_chat_template() has it. Up to 1 MiB.
/// `failure` is set where a message is returned.
char* gpux_template_compile(GpuxText source, GpuxTemplate** chat_template, uint32_t* failure);
void gpux_template_close(GpuxTemplate* chat_template);

/// Renders it with the members of a JSON object as its variables. strftime_now() writes `now`, seconds since 1970, as
/// local time. The text is to be given back by gpux_text_free().
char* gpux_template_render(const GpuxTemplate* chat_template, GpuxText values, int64_t now, size_t max_bytes,
                           GpuxOwnedText* text, uint32_t* failure);

void gpux_text_free_message(char* message);

/// The tokens of a model, for constraints: see gpux::text::TokenVocabulary. Many threads may use one at once.
typedef struct GpuxVocabulary GpuxVocabulary;

/// `logits`: tokens that the model has logits for, which may be more or fewer than the tokenizer has. `end_tokens`:
/// those that end a text; ids from `logits` on are left out.
char* gpux_vocabulary_open(const GpuxTokenizer* tokenizer, size_t logits, const uint32_t* end_tokens, size_t end_count,
                           GpuxVocabulary** vocabulary);
void gpux_vocabulary_close(GpuxVocabulary* vocabulary);

/// Which tokens may come next in one text: see gpux::text::TokenConstraint. One thread at a time.
typedef struct GpuxConstraint GpuxConstraint;

enum {
  GPUX_CONSTRAINT_JSON_SCHEMA = 1,
  GPUX_CONSTRAINT_REGEX = 2,
  GPUX_CONSTRAINT_GRAMMAR = 3,

  GPUX_CONSTRAINT_MAY_END = 1,   ///< of a state: the text is complete
  GPUX_CONSTRAINT_FINISHED = 2,  ///< of a state: the text is complete, and nothing can follow
};

/// `frame`: a grammar of the whole text, in which @form stands for the form that `kind` and `text` describe (none where
/// `kind` is 0), and <[ID]> for a token; empty: the form is the whole text. The constraint keeps what it needs of the
/// vocabulary.
char* gpux_constraint_open(const GpuxVocabulary* vocabulary, uint32_t kind, GpuxText text, GpuxText frame,
                           GpuxConstraint** constraint);
char* gpux_constraint_copy(const GpuxConstraint* constraint, GpuxConstraint** copy);
void gpux_constraint_close(GpuxConstraint* constraint);

/// `count` is the vocabulary's `logits`.
char* gpux_constraint_apply(GpuxConstraint* constraint, float* logits, size_t count);
char* gpux_constraint_accept(GpuxConstraint* constraint, uint32_t token);
/// Writes at most `count` tokens, and how many they are.
char* gpux_constraint_forced(GpuxConstraint* constraint, uint32_t* tokens, size_t* count);
char* gpux_constraint_state(GpuxConstraint* constraint, uint32_t* state);

#ifdef __cplusplus
}
#endif
