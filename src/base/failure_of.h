#pragma once

#include <optional>

#include "base/caught_error.h"
#include "base/log.h"
#include "gpux/error.h"

namespace gpux {

/// Runs what must not end the thread that runs it; empty where it threw nothing.
template <typename Work>
std::optional<Error> failure_of(const Work& work) noexcept {
  try {
    work();
    return std::nullopt;
  } catch (...) {
    return caught_error();
  }
}

/// Calls what belongs to somebody else, on a thread of ours. What it throws is logged.
template <typename Callback, typename... Arguments>
void call_guarded(const Callback& callback, const Arguments&... arguments) noexcept {
  const auto failure = failure_of([&] { callback(arguments...); });
  if (failure) (void)failure_of([&] { log::error("an answer could not be given: {}", failure->message()); });
}

}  // namespace gpux
