#pragma once

#include <span>
#include <string_view>

namespace gpux::server::console {

/// A file that is part of the program.
struct EmbeddedFile {
  std::string_view name;  ///< "index.html"
  std::string_view text;
};

/// The files in page/, as they were when the program was built.
[[nodiscard]] std::span<const EmbeddedFile> page_texts() noexcept;

}  // namespace gpux::server::console
