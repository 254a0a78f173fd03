#pragma once

#include "gpux/pull.h"

namespace gpux {

/// The listener, of which only one function runs at a time, whatever threads call: several transfers tell of their
/// progress, and those that are repeated say why. Copies are one listener.
[[nodiscard]] PullListener one_at_a_time(const PullListener& listener);

}  // namespace gpux
