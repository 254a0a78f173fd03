#pragma once

#include <string>

#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/memory_size.h"

namespace gpux::cli {

/// For options of a number of bytes: also takes sizes like 64MiB.
inline CLI::Validator size_in_bytes() {
  const auto bytes_of_size = [](std::string& text) -> std::string {
    const auto bytes = parse_memory_size(text);
    if (!bytes) return fmt::format("'{}' is no size; accepted: a number of bytes, or a size like 64MiB", text);
    text = std::to_string(*bytes);
    return {};
  };
  return {bytes_of_size, "SIZE"};
}

}  // namespace gpux::cli
