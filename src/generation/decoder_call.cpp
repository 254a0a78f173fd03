#include "generation/decoder_call.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "gpux/error.h"
#include "gpux/model_info.h"

namespace gpux::generation {
namespace {

[[noreturn]] void fail() {
  throw Error(ErrorCode::internal, "a call of a decoder in a worker process makes no sense");
}

// The order of CacheChange.
enum class Kind : std::int64_t { open, reserve, copy, exchange, release, compare };

// Tokens that are copied; none of them: nothing is.
constexpr std::size_t numbers_per_copy = 3;

std::array<std::int64_t, numbers_per_copy> numbers_of_copy(const std::optional<SlotTokens>& copied) {
  if (!copied) return {};
  return {static_cast<std::int64_t>(copied->slot), static_cast<std::int64_t>(copied->first),
          static_cast<std::int64_t>(copied->tokens)};
}

std::optional<SlotTokens> copy_from(std::span<const std::int64_t> numbers) {
  if (numbers[2] == 0) return std::nullopt;
  return SlotTokens{static_cast<std::size_t>(numbers[0]), static_cast<std::size_t>(numbers[1]),
                    static_cast<std::size_t>(numbers[2])};
}

Tensor numbers_of(std::span<const std::int64_t> values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

std::vector<std::string> texts_of(const DecoderNames& names) {
  return {names.input_ids, names.attention_mask, names.position_ids, names.logits,
          names.past_key,  names.past_value,     names.present_key,  names.present_value};
}

DecoderNames names_from(std::span<const std::string> texts) {
  if (texts.size() != texts_of({}).size()) fail();
  return {.input_ids = texts[0],
          .attention_mask = texts[1],
          .position_ids = texts[2],
          .logits = texts[3],
          .past_key = texts[4],
          .past_value = texts[5],
          .present_key = texts[6],
          .present_value = texts[7]};
}

class Writer {
 public:
  void operator()(const OpenCaches& open) {
    put(Kind::open, {open.slots, static_cast<std::size_t>(open.head_size)});
    for (std::string& text : texts_of(open.names)) texts.push_back(std::move(text));
  }

  void operator()(const ReserveCaches& reserve) {
    put(Kind::reserve, {reserve.tokens, reserve.sizes.size()});
    for (const std::size_t size : reserve.sizes) numbers.push_back(static_cast<std::int64_t>(size));
  }

  void operator()(const CopyCaches& copy) { put(Kind::copy, {copy.from, copy.to, copy.tokens}); }

  void operator()(const ExchangeCaches& exchange) {
    put(Kind::exchange, {exchange.a, exchange.tokens_a, exchange.b, exchange.tokens_b});
  }

  void operator()(const ReleaseCaches& release) { put(Kind::release, {release.slot, release.first, release.end}); }

  void operator()(const CompareRows& compare) { put(Kind::compare, {compare.vocabulary, compare.max_tokens}); }

  std::vector<std::int64_t> numbers;
  std::vector<std::string> texts;

 private:
  void put(Kind kind, std::initializer_list<std::size_t> values) {
    numbers.push_back(static_cast<std::int64_t>(kind));
    for (const std::size_t value : values) numbers.push_back(static_cast<std::int64_t>(value));
  }
};

class Reader {
 public:
  Reader(std::span<const std::int64_t> numbers, std::span<const std::string> texts)
      : numbers_(numbers), texts_(texts) {}

  [[nodiscard]] bool is_at_end() const noexcept { return next_ == numbers_.size(); }

  CacheChange change() {
    switch (static_cast<Kind>(number())) {
      case Kind::open: {
        OpenCaches open{.slots = size(), .head_size = number(), .names = {}};
        const std::size_t count = texts_of({}).size();
        if (texts_.size() < count) fail();
        open.names = names_from(texts_.first(count));
        texts_ = texts_.subspan(count);
        return open;
      }
      case Kind::reserve: {
        ReserveCaches reserve{.tokens = size(), .sizes = {}};
        for (std::size_t left = size(); left != 0; --left) reserve.sizes.push_back(size());
        return reserve;
      }
      case Kind::copy: {
        const std::size_t from = size(), to = size(), tokens = size();
        return CopyCaches{from, to, tokens};
      }
      case Kind::exchange: {
        const std::size_t a = size(), tokens_a = size(), b = size(), tokens_b = size();
        return ExchangeCaches{a, tokens_a, b, tokens_b};
      }
      case Kind::release: {
        const std::size_t slot = size(), first = size(), end = size();
        return ReleaseCaches{slot, first, end};
      }
      case Kind::compare: {
        const std::size_t vocabulary = size(), max_tokens = size();
        return CompareRows{vocabulary, max_tokens};
      }
    }
    fail();
  }

 private:
  std::int64_t number() {
    if (is_at_end()) fail();
    return numbers_[next_++];
  }

  std::size_t size() {
    const std::int64_t value = number();
    if (value < 0) fail();
    return static_cast<std::size_t>(value);
  }

  std::span<const std::int64_t> numbers_;
  std::span<const std::string> texts_;
  std::size_t next_ = 0;
};

const Tensor& tensor_of(const NamedValues& values, std::size_t index, ElementType type) {
  if (index >= values.size()) fail();
  const Tensor* tensor = values[index].second.tensor();
  if (tensor == nullptr || tensor->type() != type) fail();
  return *tensor;
}

SignatureEntry entry_of(std::string name, ElementType type) {
  SignatureEntry entry;
  entry.name = std::move(name);
  entry.type.element = type;
  return entry;
}

}  // namespace

NamedValues values_of(const DecoderCall& call) {
  Writer writer;
  for (const CacheChange& change : call.changes) std::visit(writer, change);
  std::vector<std::int64_t> rows{static_cast<std::int64_t>(call.number), static_cast<std::int64_t>(call.first_slot),
                                 call.wanted == LogitRows::all ? 1 : 0};
  for (const std::optional<SlotTokens>& copied : {call.written, call.read}) {
    for (const std::int64_t number : numbers_of_copy(copied)) rows.push_back(number);
  }
  for (const std::size_t past : call.past) rows.push_back(static_cast<std::int64_t>(past));
  const std::vector<std::int64_t> tokens(call.tokens.begin(), call.tokens.end());
  const auto texts = static_cast<std::int64_t>(writer.texts.size());
  return {{"changes", numbers_of(writer.numbers)},
          {"names", Tensor::of_strings({texts}, std::move(writer.texts))},
          {"rows", numbers_of(rows)},
          {"tokens", numbers_of(tokens)},
          {"written", Tensor::borrow(ElementType::uint8, {static_cast<std::int64_t>(call.written_rows.size())},
                                     call.written_rows)}};
}

DecoderCall decoder_call_from(const NamedValues& values) {
  DecoderCall call;
  Reader reader(tensor_of(values, 0, ElementType::int64).as<std::int64_t>(),
                tensor_of(values, 1, ElementType::string).strings());
  while (!reader.is_at_end()) call.changes.push_back(reader.change());
  const std::span<const std::int64_t> rows = tensor_of(values, 2, ElementType::int64).as<std::int64_t>();
  constexpr std::size_t written = 3, read = written + numbers_per_copy, head = read + numbers_per_copy;
  if (rows.size() < head || std::ranges::any_of(rows, [](std::int64_t value) { return value < 0; })) fail();
  call.number = static_cast<std::uint64_t>(rows[0]);
  call.first_slot = static_cast<std::size_t>(rows[1]);
  if (rows[2] > 1) fail();
  call.wanted = rows[2] == 1 ? LogitRows::all : LogitRows::last;
  call.written = copy_from(rows.subspan(written, numbers_per_copy));
  call.read = copy_from(rows.subspan(read, numbers_per_copy));
  const std::span<const std::byte> bytes = tensor_of(values, 4, ElementType::uint8).bytes();
  call.written_rows.assign(bytes.begin(), bytes.end());
  if (call.written.has_value() == bytes.empty()) fail();
  for (const std::int64_t past : rows.subspan(head)) call.past.push_back(static_cast<std::size_t>(past));
  for (const std::int64_t token : tensor_of(values, 3, ElementType::int64).as<std::int64_t>()) {
    if (token < 0 || token > std::numeric_limits<std::uint32_t>::max()) fail();
    call.tokens.push_back(static_cast<std::uint32_t>(token));
  }
  if (call.past.empty() ? !call.tokens.empty() : call.tokens.empty() || call.tokens.size() % call.past.size() != 0) {
    fail();
  }
  return call;
}

NamedValues values_of(const DecoderAnswer& answer) {
  const std::array<std::int64_t, 2> abilities{answer.can_batch ? 1 : 0, answer.can_copy_tokens ? 1 : 0};
  return {{"logits", answer.logits},
          {"abilities", numbers_of(abilities)},
          {"rows", answer.rows},
          {"note", Tensor::of_strings({1}, std::vector<std::string>(1, answer.note))}};
}

const isolation::ExpectedValues& expected_decoder_answer() {
  static const SignatureEntry logits = entry_of("logits", ElementType::float32),
                              abilities = entry_of("abilities", ElementType::int64),
                              rows = entry_of("rows", ElementType::uint8), note = entry_of("note", ElementType::string);
  static const isolation::ExpectedValues expected{&logits, &abilities, &rows, &note};
  return expected;
}

DecoderAnswer decoder_answer_from(const NamedValues& values, std::size_t rows, std::size_t vocabulary,
                                  std::size_t read_bytes) {
  const auto refuse = [] { throw Error(ErrorCode::internal, "a worker process answered something else than logits"); };
  if (values.size() != expected_decoder_answer().size()) refuse();
  DecoderAnswer answer{.note = {},
                       .logits = tensor_of(values, 0, ElementType::float32),
                       .rows = tensor_of(values, 2, ElementType::uint8)};
  const std::span<const std::int64_t> abilities = tensor_of(values, 1, ElementType::int64).as<std::int64_t>();
  const std::span<const std::string> note = tensor_of(values, 3, ElementType::string).strings();
  if (abilities.size() != 2 || note.size() != 1 || answer.rows.byte_size() != read_bytes) refuse();
  answer.can_batch = abilities[0] != 0;
  answer.can_copy_tokens = abilities[1] != 0;
  constexpr std::size_t max_note_bytes = 1024;
  answer.note = note.front().substr(0, max_note_bytes);
  const Shape& shape = answer.logits.shape();
  if (shape.size() != 2 || shape[0] != static_cast<std::int64_t>(rows)) refuse();
  constexpr std::int64_t most = 1 << 22;  // of tokens that a model knows
  if (rows != 0 && (shape[1] < 1 || shape[1] > most)) refuse();
  if (rows != 0 && vocabulary != 0 && shape[1] != static_cast<std::int64_t>(vocabulary)) refuse();
  return answer;
}

}  // namespace gpux::generation
