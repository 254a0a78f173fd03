#pragma once

#include <exception>
#include <new>
#include <optional>

#include "base/log.h"
#include "gpux/error.h"

namespace gpux::server {

/// Runs what must not end the thread that runs it; empty where it threw nothing.
template <typename Work>
std::optional<Error> failure_of(const Work& work) noexcept {
  try {
    try {
      work();
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return Error(ErrorCode::resource_exhausted, "out of memory");
    } catch (const std::exception& error) {
      return Error(ErrorCode::internal, error.what());
    } catch (...) {
      return Error(ErrorCode::internal, "an exception of an unknown type was thrown");
    }
  } catch (...) {
    // No memory even for the message.
    return std::nullopt;
  }
}

/// Calls what belongs to somebody else, on a thread of ours. What it throws is logged.
template <typename Callback, typename... Arguments>
void call_guarded(const Callback& callback, const Arguments&... arguments) noexcept {
  const auto failure = failure_of([&] { callback(arguments...); });
  if (failure) (void)failure_of([&] { log::error("an answer could not be given: {}", failure->message()); });
}

}  // namespace gpux::server
