#pragma once

namespace gpux::runtime {

/// What `gpux worker` does: loads the model that the other end of the socket names, and runs it until that end is
/// closed. The process ends with the one that started it. Does not return.
/// Error usage if the descriptor is not such a socket.
[[noreturn]] void run_worker(int socket);

}  // namespace gpux::runtime
