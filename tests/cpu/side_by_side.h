#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace gpux_cpu {

/// A thread for each part but the first.
inline void side_by_side(std::size_t parts, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t part = 1; part < parts; ++part) threads.emplace_back(work, part);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace gpux_cpu
