#pragma once

#include <cstddef>
#include <memory>

#include "generation/decoder_signature.h"
#include "generation/sequence_caches.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values where the session has them: in a worker process, in memory of the host or of a device. The arguments
/// must outlive them.
std::unique_ptr<SequenceCaches> make_caches(const Runtime& runtime, runtime::SessionReplica& session,
                                            const DecoderSignature& signature, std::size_t slots);

}  // namespace gpux::generation
