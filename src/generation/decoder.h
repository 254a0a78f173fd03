#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generation/decoder_signature.h"
#include "generation/sequence_caches.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Runs one token without earlier ones: a decoder for which it works is one. Errors of
/// require_decoder() and Runtime::infer(); invalid_model.
Verdict verdict_of_first_token(Runtime runtime);

/// A decoder in a session, and the keys and values of the sequences that it continues, each in a slot. Not thread-safe,
/// but for stop().
class Decoder {
 public:
  /// A decoder with `slots` slots in the session. Error invalid_model: the model is no decoder.
  Decoder(Runtime runtime, std::size_t slots);
  ~Decoder();

  using Row = DecoderRow;

  /// SequenceCaches::run(). reserve() must have been called for these positions.
  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const Row> rows, LogitRows wanted = LogitRows::last) {
    return caches_->run(first_slot, rows, wanted);
  }

  /// Finds out whether needs_pairs(), whether it runs_ahead() and, on a device, whether it can_batch(), by runs in the
  /// slots 0 to 2, whose first positions are overwritten: it depends on the provider, the sizes of blocks, and the
  /// processor or device. `vocabulary`: tokens there are. `max_tokens`: of a slot. reserve() has made room for two of
  /// each. Errors as run().
  void compare_rows(std::size_t vocabulary, std::size_t max_tokens);

  /// Ends the run that is under way, with Error interrupted. From any thread.
  void stop();

  /// Makes room for `tokens` positions in each slot. `sizes`: tokens of each slot that are kept. Error
  /// resource_exhausted.
  void reserve(std::size_t tokens, const std::vector<std::size_t>& sizes) { caches_->reserve(tokens, sizes); }

  [[nodiscard]] std::size_t capacity() const noexcept { return caches_->capacity(); }

  void copy(std::size_t from, std::size_t to, std::size_t tokens) { caches_->copy(from, to, tokens); }

  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept {
    caches_->exchange(a, tokens_a, b, tokens_b);
  }

  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept { caches_->release(slot, first, end); }

  [[nodiscard]] bool can_batch() const noexcept { return caches_->can_batch(); }

  [[nodiscard]] bool can_copy_tokens() const noexcept { return caches_->can_copy_tokens(); }

  void read_tokens(const SlotTokens& from, std::span<std::byte> rows) { caches_->read_tokens(from, rows); }

  void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) { caches_->write_tokens(to, rows); }

  /// Everything besides the model's files that its keys and values depend on, as a text: versions, libraries, options,
  /// processor, threads, and how they are stored.
  [[nodiscard]] std::string computed_by() const;

  /// SequenceCaches::is_shared_with_worker().
  [[nodiscard]] bool is_shared_with_worker() const noexcept { return caches_->is_shared_with_worker(); }

  /// Runs of single tokens must have an even number of rows, so that a row's digits do not depend on the others: ONNX
  /// Runtime's CPU provider may compute the rows of a 4-bit or 8-bit product in pairs, and the last of an odd number
  /// otherwise. True of all such models before compare_rows().
  [[nodiscard]] bool needs_pairs() const noexcept { return needs_pairs_; }

  /// Whether LogitRows::all is supported, and a token's logits are bit for bit those of a run of its own: tokens that
  /// are only guessed can run with the one before them. False before compare_rows().
  [[nodiscard]] bool runs_ahead() const noexcept { return runs_ahead_; }

  [[nodiscard]] const DecoderSignature& signature() const noexcept { return signature_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// The runtime's, and where keys and values are, if it matters.
  [[nodiscard]] Verdict verdict() const;

 private:
  Runtime runtime_;
  DecoderSignature signature_;
  [[nodiscard]] bool finds_equal_logits(std::size_t vocabulary);

  bool needs_pairs_ = false, runs_ahead_ = false;
  std::unique_ptr<runtime::SessionReplica> session_;
  std::unique_ptr<SequenceCaches> caches_;
};

}  // namespace gpux::generation
