#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux {

/// Base64 of RFC 4648 with padding, on one line.
[[nodiscard]] std::string to_base64(std::span<const std::byte> bytes);
/// Decodes base64; empty if the text is not valid base64.
[[nodiscard]] std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace gpux
