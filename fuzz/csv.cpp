// A CSV file. Its records, written with every field in quotes, read back the same.
#include "text/csv.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "fuzzer.h"

namespace {

using Records = std::vector<std::vector<std::string>>;

Records records_of(std::string_view text) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::string copy(text);
  const std::unique_ptr<std::FILE, decltype(close)> file(::fmemopen(copy.data(), copy.size(), "r"), close);
  std::setvbuf(file.get(), nullptr, _IOFBF, 64);
  gpux::text::CsvReader reader(file.get(), "text");
  Records records;
  for (std::vector<std::string> fields; reader.next(fields);) records.push_back(fields);
  return records;
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  const Records records = records_of(input);
  std::string text;
  for (const auto& fields : records) {
    for (const std::string& field : fields) {
      text += '"';
      for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
      text += "\",";
    }
    text.back() = '\n';
  }
  const Records again = must_succeed("reading what was written", [&] { return records_of(text); });
  require(again == records, "the records written read back as others");
}
