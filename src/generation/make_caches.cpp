#include "generation/make_caches.h"

#include "base/log.h"
#include "generation/copied_caches.h"
#include "generation/device_caches.h"
#include "generation/host_caches.h"
#include "generation/remote_caches.h"
#include "gpux/error.h"

namespace gpux::generation {

std::unique_ptr<SequenceCaches> make_caches(const Runtime& runtime, runtime::SessionReplica& session,
                                            const DecoderSignature& signature, std::size_t slots) {
  if (runtime.worker()) return std::make_unique<RemoteCaches>(session, signature, slots);
  const bool is_on_device = session.makes_on_device(signature.layers.front().present_key);
  if (!signature.writes_in_place) return std::make_unique<CopiedCaches>(session, signature, slots);
  if (!is_on_device) return std::make_unique<HostCaches>(session, signature, slots);
  try {
    return std::make_unique<DeviceCaches>(runtime, session, signature, slots);
  } catch (const Error& error) {
    log::info("keys and values are not moved on the device: {}", error.message());
    return std::make_unique<CopiedCaches>(session, signature, slots);
  }
}

}  // namespace gpux::generation
