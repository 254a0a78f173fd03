#include "generation/decoder_service.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/caught_error.h"
#include "generation/decoder_call.h"
#include "generation/decoder_signature.h"
#include "generation/make_caches.h"
#include "gpux/error.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {
namespace {

class DecoderService : public runtime::WorkerService {
 public:
  explicit DecoderService(const Runtime& runtime) : runtime_(runtime), session_(runtime) {}

  [[nodiscard]] NamedValues call(const NamedValues& inputs) override {
    const DecoderCall call = decoder_call_from(inputs);
    const bool is_first = !call.changes.empty() && std::holds_alternative<OpenCaches>(call.changes.front());
    if (!is_first && call.number != last_ + 1) caches_.reset();
    for (const CacheChange& change : call.changes) {
      if (const auto* open = std::get_if<OpenCaches>(&change)) {
        this->open(*open);
      } else if (const auto* reserve = std::get_if<ReserveCaches>(&change)) {
        // Where it fails, this call is none of those that have been made: the next one is refused.
        caches().reserve(reserve->tokens, reserve->sizes);
      } else {
        apply(change);
      }
    }
    last_ = call.number;
    DecoderAnswer answer{.note = {}, .logits = Tensor::allocate(ElementType::float32, {0, 0})};
    if (call.written) caches().write_tokens(require_copy(*call.written, &call.written_rows), call.written_rows);
    if (!call.past.empty()) answer.logits = caches().run(call.first_slot, rows_of(call), call.wanted);
    if (call.read) {
      const SlotTokens& from = require_copy(*call.read, nullptr);
      const std::uint64_t bytes = from.tokens * signature_.cache.bytes_per_token();
      answer.rows = Tensor::allocate(ElementType::uint8, {static_cast<std::int64_t>(bytes)});
      caches().read_tokens(from, answer.rows.mutable_bytes());
    }
    answer.can_batch = caches().can_batch();
    answer.can_copy_tokens = caches().can_copy_tokens();
    answer.note = caches().note().value_or("");
    return values_of(answer);
  }

  void stop() override { session_.stop(); }

 private:
  SequenceCaches& caches() {
    if (caches_ == nullptr) throw Error(ErrorCode::not_found, "the worker process has no keys and values");
    return *caches_;
  }

  void open(const OpenCaches& open) {
    caches_.reset();
    DecoderMatch match = match_decoder(runtime_.info(), open.names, open.head_size);
    if (!match.signature) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("'{}' generates no text: {}", runtime_.info().name, match.obstacle));
    }
    signature_ = *std::move(match.signature);
    caches_ = make_caches(runtime_, session_, signature_, open.slots);
    slots_ = open.slots;
  }

  // The other process takes the changes for made: where one fails, the slots are of no use any more.
  void apply(const CacheChange& change) {
    SequenceCaches& all = caches();
    try {
      if (const auto* copy = std::get_if<CopyCaches>(&change)) all.copy(copy->from, copy->to, copy->tokens);
      if (const auto* exchange = std::get_if<ExchangeCaches>(&change)) {
        all.exchange(exchange->a, exchange->tokens_a, exchange->b, exchange->tokens_b);
      }
      if (const auto* release = std::get_if<ReleaseCaches>(&change)) {
        all.release(release->slot, release->first, release->end);
      }
      if (const auto* compare = std::get_if<CompareRows>(&change)) {
        all.compare_rows(compare->vocabulary, compare->max_tokens);
      }
    } catch (...) {
      const Error error = caught_error();
      caches_.reset();
      throw Error(ErrorCode::not_found, error.message());
    }
  }

  // `rows`: what is written; null: they are read.
  const SlotTokens& require_copy(const SlotTokens& copied, const std::vector<std::byte>* rows) {
    const std::size_t end = copied.first + copied.tokens;
    const bool has_rows = rows == nullptr || rows->size() == copied.tokens * signature_.cache.bytes_per_token();
    if (copied.slot < slots_ && end <= caches().capacity() && has_rows) return copied;
    throw Error(ErrorCode::internal, "keys and values of no slot, or of another size, are copied");
  }

  static std::vector<DecoderRow> rows_of(const DecoderCall& call) {
    const std::size_t length = call.tokens.size() / call.past.size();
    std::vector<DecoderRow> rows;
    for (std::size_t i = 0; i < call.past.size(); ++i) {
      rows.push_back({call.past[i], std::span(call.tokens).subspan(i * length, length)});
    }
    return rows;
  }

  const Runtime& runtime_;
  runtime::SessionReplica session_;
  DecoderSignature signature_;
  std::size_t slots_ = 0;
  std::uint64_t last_ = 0;  // the number of the last call whose changes were made
  std::unique_ptr<SequenceCaches> caches_;
};

}  // namespace

std::unique_ptr<runtime::WorkerService> make_decoder_service(const Runtime& runtime) {
  return std::make_unique<DecoderService>(runtime);
}

}  // namespace gpux::generation
