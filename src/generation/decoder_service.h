#pragma once

#include <memory>

#include "gpux/runtime.h"
#include "runtime/worker_service.h"

namespace gpux::generation {

/// What a worker process has for RemoteCaches: the keys and values of a decoder, and the runs that continue them. Made
/// for any model; the calls of one that is no decoder fail with invalid_model.
std::unique_ptr<runtime::WorkerService> make_decoder_service(const Runtime& runtime);

}  // namespace gpux::generation
