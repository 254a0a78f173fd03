#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "encoder.h"
#include "graph.h"
#include "linear.h"

namespace gpux_encoder {

/// Encoders in use, so that sessions of one model have its weights in memory once. All calls from any thread.
class SharedEncoders {
 public:
  using Make = std::function<std::unique_ptr<Encoder>()>;

  /// The one that was made of an equal graph, weights and all, and is still in use; else what `make` gives. Others wait
  /// meanwhile. Throws what `make` does.
  std::shared_ptr<const Encoder> get(const Graph& graph, Precision precision, const Make& make);

 private:
  using Digest = std::array<std::uint64_t, 2>;

  std::mutex mutex_;
  std::map<Digest, std::weak_ptr<const Encoder>> encoders_;
};

}  // namespace gpux_encoder
