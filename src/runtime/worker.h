#pragma once

#include <string_view>

#include "runtime/worker_service.h"

namespace gpux::runtime {

/// What `gpux worker` does: loads the model that the other end of the socket names, and runs it until that end is
/// closed. `make_service`: makes what answers calls beside the model. `protocol`: of the other end; refuses to load
/// where it is not isolation::worker_protocol. The process ends with the one that started it. Does not return. Error
/// usage if the descriptor is not such a socket.
[[noreturn]] void run_worker(int socket, const MakeWorkerService& make_service, std::string_view protocol);

}  // namespace gpux::runtime
