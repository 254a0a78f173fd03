#pragma once

#include <memory>

#include <gpux_text.h>

#include "gpux/error.h"

namespace gpux::text {

/// Frees what a function of gpux_text.h had to say.
struct MessageDeleter {
  void operator()(char* message) const noexcept { gpux_text_free_message(message); }
};

using Message = std::unique_ptr<char, MessageDeleter>;

/// Throws the error message of a library function, if there is one.
inline void check(char* message, ErrorCode code) {
  const Message owner(message);
  if (owner) throw Error(code, owner.get());
}

}  // namespace gpux::text
