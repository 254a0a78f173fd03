#include "cli/table.h"

#include <algorithm>

namespace gpux::cli {
namespace {

std::size_t width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// C0 and C1 controls (the latter as UTF-8) and DEL.
std::string shown(const std::string& cell) {
  std::string text = cell;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) text[i] = ' ';
    const bool is_c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_c1) text.replace(i, 2, " ");
  }
  return text;
}

void append_row(const std::vector<std::string>& row, const std::vector<std::size_t>& widths, std::string& out) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    line += shown(row[i]);
    if (i + 1 < row.size()) line.append(widths[i] - width(shown(row[i])) + 2, ' ');
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
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(shown(row[i])));
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
