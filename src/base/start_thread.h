#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux {

/// A new thread, std::thread or std::jthread. Error resource_exhausted where the system has none left.
template <typename Thread = std::thread, typename Work>
[[nodiscard]] Thread start_thread(Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::resource_exhausted, fmt::format("no thread can be started: {}", error.what()));
  }
}

/// Starts `count` threads for the same work, or as many as the system has left. The caller does the work, too.
template <typename Work>
[[nodiscard]] std::vector<std::jthread> start_more_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads do it, too.
  }
  return threads;
}

}  // namespace gpux
