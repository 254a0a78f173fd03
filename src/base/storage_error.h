#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

namespace gpux {

/// Throws Error storage: "cannot ACTION 'PATH': No space left on device".
[[noreturn]] void throw_storage_error(std::string_view action, const std::filesystem::path& path, int error_number);

inline void require_stored(const std::error_code& error, std::string_view action, const std::filesystem::path& path) {
  if (error) throw_storage_error(action, path, error.value());
}

}  // namespace gpux
