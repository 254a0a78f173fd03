#pragma once

#include <cstddef>
#include <string_view>

namespace gpux::checkpoint {

/// A GGUF file's name, taken apart: "x/model-00001-of-00002.gguf" is part 1 of 2 of "x/model".
struct GgufName {
  std::string_view model;  ///< a view of the name, without the part and ".gguf"
  std::size_t part = 1, parts = 1;
};

[[nodiscard]] bool is_gguf(std::string_view name) noexcept;

/// Of a name for which is_gguf() holds. Pure.
[[nodiscard]] GgufName gguf_name_of(std::string_view name) noexcept;

}  // namespace gpux::checkpoint
