#pragma once

#include "generation/key_value_cache.h"
#include "generation/sequence_caches.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values in memory of the host, where the model writes them behind those of earlier tokens
/// (DecoderSignature::writes_in_place).
class HostCaches : public SequenceCaches {
 public:
  /// `session` and `signature` must outlive this object.
  HostCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots);

  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) override;

  [[nodiscard]] bool can_batch() const noexcept override { return true; }

  void reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) override { cache_.reserve(tokens, sizes); }

  [[nodiscard]] std::size_t capacity() const noexcept override { return cache_.capacity(); }

  void copy(std::size_t from, std::size_t to, std::size_t tokens) override { cache_.copy(from, to, tokens); }

  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept override {
    cache_.exchange(a, tokens_a, b, tokens_b);
  }

  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept override {
    cache_.release(slot, first, end);
  }

  void read_tokens(const SlotTokens& from, std::span<std::byte> rows) override {
    cache_.read(from.slot, from.first, from.tokens, rows);
  }

  void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) override {
    cache_.write(to.slot, to.first, to.tokens, rows);
  }

 private:
  runtime::SessionReplica& session_;
  const DecoderSignature& signature_;
  KeyValueCache cache_;
};

}  // namespace gpux::generation
