#pragma once

#include "generation/sequence_caches.h"
#include "gpux/device_tensor.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values that the model gives anew at each step, of each slot where the model makes them: on the host, or on
/// a device. Slots run one by one.
class CopiedCaches : public SequenceCaches {
 public:
  /// `session` and `signature` must outlive this object.
  CopiedCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots);

  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) override;

  void copy(std::size_t from, std::size_t to, std::size_t tokens) override;
  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept override;
  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept override;

  void read_tokens(const SlotTokens& from, std::span<std::byte> rows) override;
  void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) override;

  [[nodiscard]] std::optional<std::string> note() const override;

 private:
  [[nodiscard]] Tensor run_one(std::size_t slot, const DecoderRow& row);

  runtime::SessionReplica& session_;
  const DecoderSignature& signature_;
  std::vector<std::size_t> outputs_;              // the logits, and the keys and values of each layer
  DeviceTensor none_;                             // keys or values of no token
  std::vector<std::vector<DeviceTensor>> slots_;  // keys and values of each layer
};

}  // namespace gpux::generation
