#include "cli/table.h"

#include <algorithm>

#include "base/utf8.h"

namespace gpux::cli {
namespace {

std::size_t width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void append_row(const std::vector<std::string>& row, const std::vector<std::size_t>& widths, std::string& out) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string cell = one_line(row[i]);
    line += cell;
    if (i + 1 < row.size()) line.append(widths[i] - width(cell) + 2, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  if (!out.empty()) out += '\n';
  out += line;
}

}  // namespace

std::string Table::text() const {
  std::vector<std::size_t> widths(head.size(), 0);
  const auto measure = [&](const std::vector<std::string>& row) {
    if (widths.size() < row.size()) widths.resize(row.size(), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(one_line(row[i])));
  };
  measure(head);
  for (const auto& row : rows) measure(row);
  std::string out;
  if (!head.empty()) append_row(head, widths, out);
  for (const auto& row : rows) append_row(row, widths, out);
  return out;
}

std::string sections(const std::vector<std::pair<std::string, Table>>& tables) {
  std::string out;
  for (const auto& [title, table] : tables) {
    if (table.rows.empty()) continue;
    if (!out.empty()) out += "\n\n";
    out += title + "\n" + table.text();
  }
  return out;
}

}  // namespace gpux::cli
