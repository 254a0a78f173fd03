#include "generation/remote_caches.h"

#include <algorithm>
#include <utility>

#include "gpux/error.h"

namespace gpux::generation {

RemoteCaches::RemoteCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots)
    : session_(session), open_{.slots = slots, .head_size = signature.cache.head_size, .names = signature.names} {}

void RemoteCaches::remember(const CacheChange& change) noexcept {
  if (worker_ == 0) return;
  try {
    changes_.push_back(change);
  } catch (...) {
    // The next call is refused: the slots are no longer what the caller takes them for.
    ++calls_;
  }
}

void RemoteCaches::compare_rows(std::size_t vocabulary, std::size_t max_tokens) {
  compare_ = CompareRows{vocabulary, max_tokens};
  remember(*compare_);
  (void)call({});
}

void RemoteCaches::reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) {
  if (tokens <= capacity_) return;
  if (worker_ == 0) begin_anew();
  changes_.emplace_back(ReserveCaches{tokens, sizes});
  if (has_to_compare_ && compare_) changes_.emplace_back(*compare_);
  has_to_compare_ = false;
  capacity_ = tokens;
}

void RemoteCaches::begin_anew() {
  const std::uint64_t worker = session_.wait_for_worker();
  changes_.assign(1, open_);
  has_to_compare_ = compare_.has_value();
  worker_ = worker;
}

void RemoteCaches::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  remember(CopyCaches{from, to, tokens});
}

void RemoteCaches::exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept {
  if (tokens_a != 0 || tokens_b != 0) remember(ExchangeCaches{a, tokens_a, b, tokens_b});
}

void RemoteCaches::release(std::size_t slot, std::size_t first, std::size_t end) noexcept {
  if (first < end) remember(ReleaseCaches{slot, first, end});
}

Tensor RemoteCaches::run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) {
  DecoderCall run{.first_slot = first_slot, .wanted = wanted};
  for (const DecoderRow& row : rows) {
    run.past.push_back(row.past);
    run.tokens.insert(run.tokens.end(), row.tokens.begin(), row.tokens.end());
  }
  return call(std::move(run)).logits;
}

void RemoteCaches::read_tokens(const SlotTokens& from, std::span<std::byte> rows) {
  const DecoderAnswer answer = call({.read = from}, rows.size());
  std::ranges::copy(answer.rows.bytes(), rows.begin());
}

void RemoteCaches::write_tokens(const SlotTokens& to, std::span<const std::byte> rows) {
  (void)call({.written = to, .written_rows = {rows.begin(), rows.end()}});
}

DecoderAnswer RemoteCaches::call(DecoderCall call, std::size_t read_bytes) {
  const auto lose = [&](const Error& error, bool had_taken_run) {
    worker_ = 0;
    capacity_ = 0;
    changes_.clear();
    return CachesLost(error, had_taken_run);
  };
  if (worker_ == 0) throw lose(Error(ErrorCode::internal, "the keys and values of a worker process are lost"), false);
  call.number = ++calls_;
  call.changes = std::exchange(changes_, {});
  try {
    const NamedValues values = session_.call_worker(worker_, values_of(call), expected_decoder_answer());
    const std::size_t logits = call.wanted == LogitRows::all ? call.tokens.size() : call.past.size();
    DecoderAnswer answer = decoder_answer_from(values, logits, vocabulary_, read_bytes);
    can_batch_ = answer.can_batch;
    can_copy_tokens_ = answer.can_copy_tokens;
    if (!std::exchange(has_answered_, true) && !answer.note.empty()) note_ = std::move(answer.note);
    if (!call.past.empty()) vocabulary_ = static_cast<std::size_t>(answer.logits.shape().back());
    return answer;
  } catch (const isolation::WorkerEnded& ended) {
    throw lose(ended, ended.had_taken_run());
  } catch (const Error& error) {
    // The service has dropped the slots: a change failed, or a call before this one never came.
    if (error.code() == ErrorCode::not_found) throw lose(error, true);
    capacity_ = 0;  // the change that made room may be what failed: the next run asks again
    throw;
  }
}

}  // namespace gpux::generation
