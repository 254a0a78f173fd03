#include "cli/variant_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "base/utf8.h"

namespace gpux::cli {

VariantProgress::VariantProgress(const Context& context) : is_shown_(!context.quiet && ::isatty(STDERR_FILENO) != 0) {}

VariantProgress::~VariantProgress() {
  if (is_shown_) write_to_standard_error("\r\033[K");
}

evaluation::VariantListener VariantProgress::listener() const {
  if (!is_shown_) return {};
  return [](const std::string& precision, const std::string& what) {
    write_to_standard_error(fmt::format("\r\033[K{}: {}", one_line(precision), one_line(what)));
  };
}

}  // namespace gpux::cli
