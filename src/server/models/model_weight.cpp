#include "server/models/model_weight.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "base/start_thread.h"

namespace gpux::server {

int nice_of(std::uint32_t weight, std::uint32_t largest) {
  if (weight == 0 || weight >= largest) return 0;
  constexpr double step = 1.25;
  constexpr int most = 19;
  const double steps = std::log(static_cast<double>(largest) / weight) / std::log(step);
  return std::min(static_cast<int>(std::lround(steps)), most);
}

void with_nice(int nice, const std::function<void()>& work) {
  if (nice == 0) return work();
  std::exception_ptr failure;
  // Of its own: without a privilege a thread cannot take it back.
  std::thread thread = start_thread([&] {
    // Linux has it for each thread. It is never refused: the thread becomes less urgent.
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gpux::server
