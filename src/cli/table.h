#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpux::cli {

/// A text table: a head, rows, columns as wide as their longest cell, two blanks between. Cells count as many
/// columns as they have UTF-8 characters. Control characters, which could control a terminal, are shown as blanks.
/// Ends without a newline.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  [[nodiscard]] std::string text() const;
};

/// Tables under titles of their own, an empty line between them; those without rows are left out.
std::string sections(const std::vector<std::pair<std::string, Table>>& tables);

}  // namespace gpux::cli
