#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "encoder/encoder.h"

namespace gpux_cpu::encoder {

/// Encoders in use, so that sessions of one model have its weights in memory once. All calls from any thread.
class SharedEncoders {
 public:
  /// Digest of a graph and its precision: equal for encoders with the same answers.
  using Digest = std::array<std::uint64_t, 2>;
  using Make = std::function<std::unique_ptr<Encoder>()>;

  /// The one of this digest that is still in use; else what `make` gives. Others wait meanwhile. Throws what `make`
  /// does.
  std::shared_ptr<const Encoder> get(const Digest& digest, const Make& make);

 private:
  std::mutex mutex_;
  std::map<Digest, std::weak_ptr<const Encoder>> encoders_;
};

}  // namespace gpux_cpu::encoder
