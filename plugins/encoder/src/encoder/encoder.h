#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "encoder/batch.h"
#include "encoder/weights.h"
#include "kernels/kernels.h"
#include "kernels/run_failure.h"
#include "kernels/team.h"

namespace gpux_cpu::encoder {

class Encoder {
 public:
  explicit Encoder(Weights weights, const Kernels& kernels);
  ~Encoder();

  [[nodiscard]] const Weights& weights() const noexcept { return weights_; }

  /// Output buffers of a run; null: not computed.
  struct Results {
    float* vectors = nullptr;        ///< [batch_size, vector_size(weights)]; the mean over no token is 0
    float* hidden_states = nullptr;  ///< [batch_size, sequence_length, hidden_size], of masked tokens, too
  };

  /// Several threads may call at once; their scratch memory is kept for later calls.
  /// `threads`: the number of parts to divide the work into. `stopped`, if not null, is checked before each layer,
  /// block of rows and head of the attention. A batch may have no text, texts without a token, and texts whose tokens
  /// are all masked. Throws InvalidInput for input_ids, token_type_ids, mask values and lengths that the model does not
  /// have, also of masked tokens, and for texts without a first token if Pooling::cls reads it; throws Stopped. The
  /// results are then undefined.
  void run(const Batch& batch, std::size_t threads, const ParallelFor& parallel_for, const Results& results,
           const std::atomic<bool>* stopped = nullptr) const;

  struct Scratch;

 private:
  Weights weights_;
  const Kernels& kernels_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace gpux_cpu::encoder
