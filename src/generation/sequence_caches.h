#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generation/decoder_run.h"
#include "gpux/error.h"
#include "gpux/tensor.h"

namespace gpux::generation {

/// The worker process that had the keys and values has ended: all slots are empty, and the next run is one of a worker
/// that was started meanwhile.
class CachesLost : public Error {
 public:
  CachesLost(const Error& error, bool had_taken_run) : Error(error), had_taken_run_(had_taken_run) {}

  /// Whether the run may be the reason: the worker had begun it.
  [[nodiscard]] bool had_taken_run() const noexcept { return had_taken_run_; }

 private:
  bool had_taken_run_;
};

/// The keys and values of a decoder's sequences, each in a slot, and the runs that continue them: what differs with
/// where a model has them. Not thread-safe.
class SequenceCaches {
 public:
  SequenceCaches() = default;
  virtual ~SequenceCaches() = default;
  SequenceCaches(const SequenceCaches&) = delete;
  SequenceCaches& operator=(const SequenceCaches&) = delete;

  /// Runs the rows in the slots from `first_slot` on: one row with any number of tokens, or several with one each; with
  /// LogitRows::all, several with as many each. The logits of each row's last token, float32[rows, vocabulary], or of
  /// all its tokens, float32[rows * tokens, vocabulary]. If it throws, what the slots hold behind `past` is not
  /// determined. Errors of Runtime::infer(); interrupted; CachesLost; usage: LogitRows::all where keys and values are
  /// not written in place, in memory of the host.
  [[nodiscard]] virtual Tensor run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) = 0;

  /// Whether a run of several rows is cheaper than running them one by one.
  [[nodiscard]] virtual bool can_batch() const noexcept { return false; }

  /// Finds out by runs in the slots 0 to 2, whose tokens are overwritten, whether rows may share runs, where that is
  /// not known of the provider. `vocabulary`: tokens there are. `max_tokens`: of a slot. Errors as run().
  virtual void compare_rows(std::size_t /*vocabulary*/, std::size_t /*max_tokens*/) {}

  /// Makes room for `tokens` positions in each slot; `sizes`: tokens of each slot that are kept. As
  /// KeyValueCache::reserve().
  virtual void reserve(std::size_t /*tokens*/, const std::vector<std::size_t>& /*sizes*/) {}

  [[nodiscard]] virtual std::size_t capacity() const noexcept { return std::numeric_limits<std::size_t>::max(); }

  virtual void copy(std::size_t from, std::size_t to, std::size_t tokens) = 0;
  virtual void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept = 0;
  /// Releases the memory of the tokens from `first` to before `end`. If that fails, as on a lost device, they are
  /// dropped when the slot runs again.
  virtual void release(std::size_t slot, std::size_t first, std::size_t end) noexcept = 0;

  /// Whether read_tokens() and write_tokens() are supported.
  [[nodiscard]] virtual bool can_copy_tokens() const noexcept { return true; }

  /// Copies keys and values of tokens to memory: for each array of the CacheLayout [heads, tokens, head_size]. Errors
  /// as run().
  virtual void read_tokens(const SlotTokens& from, std::span<std::byte> rows) = 0;
  /// Copies them from there to a slot that holds the tokens before `to.first`, and has room (reserve()). What the slot
  /// holds behind them is not determined then. Errors as run().
  virtual void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) = 0;

  /// Whether another process may write to logits while they are held.
  [[nodiscard]] virtual bool is_shared_with_worker() const noexcept { return false; }

  /// A note of the verdict.
  [[nodiscard]] virtual std::optional<std::string> note() const { return std::nullopt; }
};

}  // namespace gpux::generation
