#pragma once

#include <cstdint>

#include "gpux/error.h"

namespace gpux {

/// The code that an exit code or a message of another process has; `internal` if it is none.
[[nodiscard]] ErrorCode error_code_of(std::int32_t number) noexcept;

}  // namespace gpux
