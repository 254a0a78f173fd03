#pragma once

#include "gpux/pull.h"

namespace gpux {

/// The listener, of which only one function runs at a time, whatever threads call: several transfers report their
/// progress, and the reasons for repeating one. Copies are one listener.
[[nodiscard]] PullListener one_at_a_time(const PullListener& listener);

}  // namespace gpux
