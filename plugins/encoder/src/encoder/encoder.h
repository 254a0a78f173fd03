#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "encoder/batch.h"
#include "encoder/weights.h"
#include "kernels/kernels.h"
#include "kernels/team.h"

namespace gpux_encoder {

/// Somebody asked a run to end.
struct Stopped {};

class Encoder {
 public:
  explicit Encoder(Weights weights, const Kernels& kernels);
  ~Encoder();

  [[nodiscard]] const Weights& weights() const noexcept { return weights_; }

  /// What a run gives; null where it is not wanted.
  struct Results {
    float* vectors = nullptr;  ///< [texts, hidden]; the mean over no token is 0
    float* hidden = nullptr;   ///< [texts, length, hidden], of the tokens that do not count, too
  };

  /// Several threads may call at once; the room that they need is kept for later calls.
  /// `threads`: how many parts are worth having. `stopped`, where it is not null, is looked at before each layer.
  /// A batch may have no text, texts without a token, and texts of which no token counts. Throws InvalidBatch for ids,
  /// types, mask values and lengths that the model does not have, of tokens that do not count as well, and for texts
  /// without a first token where Pooling::cls takes it; throws Stopped. The results are then of no use.
  void run(const Batch& batch, std::size_t threads, const ParallelFor& parallel_for, const Results& results,
           const std::atomic<bool>* stopped = nullptr) const;

  struct Rooms;

 private:
  Weights weights_;
  const Kernels& kernels_;
  std::unique_ptr<Rooms> rooms_;
};

}  // namespace gpux_encoder
