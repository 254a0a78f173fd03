#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generation/decoder_call.h"
#include "generation/decoder_signature.h"
#include "generation/sequence_caches.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values in a worker process, beside the model. What changes them is remembered, and goes to the worker with
/// the next run: a step costs one message each way. The logits of a run are in memory that the worker may write to as
/// long as they are held.
class RemoteCaches : public SequenceCaches {
 public:
  /// `session` and `signature` must outlive this object.
  RemoteCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots);

  /// CachesLost, too.
  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) override;

  [[nodiscard]] bool can_batch() const noexcept override { return can_batch_; }

  void compare_rows(std::size_t vocabulary, std::size_t max_tokens) override;

  /// What the worker has no memory for, run() tells.
  void reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) override;

  [[nodiscard]] std::size_t capacity() const noexcept override { return capacity_; }

  void copy(std::size_t from, std::size_t to, std::size_t tokens) override;
  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept override;
  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept override;

  [[nodiscard]] bool can_copy_tokens() const noexcept override { return can_copy_tokens_; }

  /// CachesLost, too.
  void read_tokens(const SlotTokens& from, std::span<std::byte> rows) override;
  void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) override;

  [[nodiscard]] std::optional<std::string> note() const override { return note_; }

  [[nodiscard]] bool is_shared_with_worker() const noexcept override { return true; }

 private:
  /// Where there are empty slots in a worker, or none, nothing has to be changed.
  void remember(const CacheChange& change) noexcept;
  void begin_anew();
  /// The number and the changes are added to the call. `read_bytes`: of what it reads.
  DecoderAnswer call(DecoderCall call, std::size_t read_bytes = 0);

  runtime::SessionReplica& session_;
  OpenCaches open_;
  std::optional<CompareRows> compare_;  // empty before compare_rows()
  bool has_to_compare_ = false;         // in the worker, once there is room
  std::uint64_t calls_ = 0;             // numbers of calls, also of those that were never sent
  std::uint64_t worker_ = 0;            // that has the slots; 0: none
  std::vector<CacheChange> changes_;    // that it has not been told
  std::size_t capacity_ = 0, vocabulary_ = 0;
  bool can_batch_ = false, can_copy_tokens_ = false, has_answered_ = false;
  std::optional<std::string> note_;
};

}  // namespace gpux::generation
