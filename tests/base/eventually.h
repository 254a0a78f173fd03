#pragma once

#include <chrono>
#include <thread>

namespace gpux::test {

/// Whether the condition holds within two minutes.
template <typename Condition>
bool eventually(Condition condition) {
  constexpr std::chrono::milliseconds pause{10};
  for (int i = 0; i < 12'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

}  // namespace gpux::test
