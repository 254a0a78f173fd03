#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace gpux::cli {

/// Prints --help with the placeholders and descriptions of the manual pages, instead of CLI11's names of types.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace gpux::cli
