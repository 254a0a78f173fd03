#include "encoder/shared_encoders.h"

namespace gpux_cpu::encoder {

std::shared_ptr<const Encoder> SharedEncoders::get(const Digest& digest, const Make& make) {
  const std::lock_guard lock(mutex_);
  std::erase_if(encoders_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = encoders_.find(digest); found != encoders_.end()) {
    if (auto encoder = found->second.lock()) return encoder;
  }
  std::shared_ptr<const Encoder> made = make();
  encoders_[digest] = made;
  return made;
}

}  // namespace gpux_cpu::encoder
