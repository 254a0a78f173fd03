#pragma once

#include "gpux/error.h"

namespace gpux {

/// In a handler of exceptions: the exception as an Error. Memory that is not there is resource_exhausted, what is no
/// Error internal. Needs no memory where there is none.
[[nodiscard]] Error caught_error() noexcept;

}  // namespace gpux
