#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Parts of a GGUF file as bytes.
namespace gpux::importer::gguf {

template <typename T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string text(std::string_view value) {
  return number(std::uint64_t{value.size()}) + std::string(value);
}

/// `type`: 4 uint32, 6 float32, 7 bool, 8 text.
inline std::string key(std::string_view name, std::uint32_t type, const std::string& value) {
  return text(name) + number(type) + value;
}

/// `sizes`: the size of a row first. `type`: 0 float32.
inline std::string description(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                               std::uint64_t offset) {
  std::string bytes = text(name) + number(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) bytes += number(size);
  return bytes + number(type) + number(offset);
}

}  // namespace gpux::importer::gguf
