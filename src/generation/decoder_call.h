#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "generation/decoder_run.h"
#include "generation/genai_config.h"
#include "gpux/tensor.h"
#include "isolation/value_encoding.h"

/// The functions of SequenceCaches as values, for a decoder in a worker process: its calls and its answers. Pure.
namespace gpux::generation {

/// Begins anew with empty slots, and says which inputs and outputs the model has.
struct OpenCaches {
  std::size_t slots = 0;
  std::int64_t head_size = 0;
  DecoderNames names;

  bool operator==(const OpenCaches&) const = default;
};

struct ReserveCaches {
  std::size_t tokens = 0;
  std::vector<std::size_t> sizes;

  bool operator==(const ReserveCaches&) const = default;
};

struct CopyCaches {
  std::size_t from = 0, to = 0, tokens = 0;

  bool operator==(const CopyCaches&) const = default;
};

struct ExchangeCaches {
  std::size_t a = 0, tokens_a = 0, b = 0, tokens_b = 0;

  bool operator==(const ExchangeCaches&) const = default;
};

struct ReleaseCaches {
  std::size_t slot = 0, first = 0, end = 0;

  bool operator==(const ReleaseCaches&) const = default;
};

struct CompareRows {
  std::size_t vocabulary = 0, max_tokens = 0;

  bool operator==(const CompareRows&) const = default;
};

using CacheChange = std::variant<OpenCaches, ReserveCaches, CopyCaches, ExchangeCaches, ReleaseCaches, CompareRows>;

/// Changes, in order, then what is written to slots, the run, if there are rows, and what is read from slots.
struct DecoderCall {
  /// One more than that of the call before: where one was lost, the slots are not what the caller takes them for.
  std::uint64_t number = 0;
  std::vector<CacheChange> changes;
  std::size_t first_slot = 0;
  std::vector<std::size_t> past;      ///< of each row
  std::vector<std::uint32_t> tokens;  ///< of all rows, each as many
  LogitRows wanted = LogitRows::last;
  std::optional<SlotTokens> written = {};    ///< tokens whose keys and values are `written_rows`
  std::vector<std::byte> written_rows = {};  ///< as of SequenceCaches::write_tokens()
  std::optional<SlotTokens> read = {};       ///< tokens whose keys and values are wanted

  bool operator==(const DecoderCall&) const = default;
};

/// The rows that are written are those of `call`, which must outlive the values.
NamedValues values_of(const DecoderCall& call);
/// Error internal: it is no such call.
DecoderCall decoder_call_from(const NamedValues& values);

/// The properties of SequenceCaches, and the result of a run.
struct DecoderAnswer {
  bool can_batch = false, can_copy_tokens = false;
  std::string note;  ///< empty: none
  Tensor logits;     ///< float32[rows, vocabulary], rows of SequenceCaches::run(); [0, 0] without a run
  Tensor rows = Tensor::allocate(ElementType::uint8, {0});  ///< uint8, of DecoderCall::read
};

NamedValues values_of(const DecoderAnswer& answer);
/// What a worker has to answer, for isolation::RemoteSession::call().
const isolation::ExpectedValues& expected_decoder_answer();
/// Of a worker, which may answer anything: logits are of `rows` rows, each with `vocabulary` numbers, or with any
/// number where that is 0, and the keys and values that were read have `read_bytes`. Error internal: they are not.
DecoderAnswer decoder_answer_from(const NamedValues& values, std::size_t rows, std::size_t vocabulary,
                                  std::size_t read_bytes = 0);

}  // namespace gpux::generation
