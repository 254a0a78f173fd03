#pragma once

#include <string>
#include <vector>

namespace gpux::cli {

/// A table for people: a head, rows, columns as wide as their longest cell, two blanks between. Cells count as many
/// columns as they have UTF-8 characters. Ends without a newline.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  [[nodiscard]] std::string text() const;
};

}  // namespace gpux::cli
