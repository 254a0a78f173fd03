#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "decoder/weights.h"
#include "kernels/run_failure.h"
#include "kernels/team.h"

namespace gpux_cpu::decoder {

/// The keys and values of a layer: of the tokens before a run, and what the run leaves. [batch, kv_heads, length,
/// head_size] each, where length is that of the run's past_length or present_length. Where present is past, the rows of
/// the run are written and nothing is copied.
struct LayerCache {
  const void *past_keys = nullptr, *past_values = nullptr;
  void *present_keys = nullptr, *present_values = nullptr;
};

/// Tokens of some rows, appended to what each row has in the cache.
struct DecoderBatch {
  std::size_t batch = 0, sequence = 0;           ///< rows, and tokens of each of them
  std::size_t total = 0;                         ///< columns of the mask
  const std::int64_t* input_ids = nullptr;       ///< [batch, sequence]
  const std::int64_t* attention_mask = nullptr;  ///< [batch, total]: their sums are the tokens of a row, these included
  std::size_t past_length = 0, present_length = 0;  ///< positions of the caches before and after the run
  std::vector<LayerCache> layers;
  bool has_all_logits = false;  ///< of each token, not of the last one of each row alone
  float* logits = nullptr;      ///< [batch, sequence or 1, vocabulary]
};

/// Runs a decoder. Any thread may call, also at the same time. The results of a row do not depend on the other rows, on
/// how its tokens are divided into runs, or on the number of threads.
class Decoder {
 public:
  explicit Decoder(DecoderWeights weights);
  ~Decoder();

  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  [[nodiscard]] const DecoderWeights& weights() const noexcept { return weights_; }

  /// Runs a batch. Throws InvalidInput; Stopped, once `stopped` (which may be null) is set.
  void run(const DecoderBatch& batch, std::size_t threads, const ParallelFor& parallel_for,
           const std::atomic<bool>* stopped) const;

  struct Scratch;

 private:
  DecoderWeights weights_;
  KernelTables kernels_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace gpux_cpu::decoder
