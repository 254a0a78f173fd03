// Tar archives, as gpux load reads them.
#include "registry/oci/tar.h"

#include <set>
#include <span>
#include <string>

#include "fuzzer.h"

namespace gpux::fuzz {

void read_hostile(std::string_view input) {
  const std::vector<oci::TarEntry> entries = oci::list_tar(std::as_bytes(std::span(input)), "the archive");
  std::set<std::string> names;
  std::string written;
  oci::TarWriter tar([&](std::span<const std::byte> bytes) {
    written.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  bool is_plain = true;
  for (const oci::TarEntry& entry : entries) {
    require(entry.offset <= input.size() && entry.bytes <= input.size() - entry.offset, "an entry outside the archive");
    require(names.insert(entry.name).second, "a name twice");
    // What the format cannot carry as it is: nothing, a folder, a line end of pax, and what reading takes away.
    is_plain = is_plain && !entry.name.empty() && entry.name.find('\0') == std::string::npos;
    tar.add(entry.name, input.substr(entry.offset, entry.bytes));
  }
  tar.finish();
  if (!is_plain) return;
  const std::vector<oci::TarEntry> again =
      must_succeed("reading what was written", [&] { return oci::list_tar(std::as_bytes(std::span(written)), "it"); });
  require(again.size() == entries.size(), "the archive written has other entries");
  for (std::size_t i = 0; i < again.size(); ++i) {
    require(again[i].name == entries[i].name &&
                written.substr(again[i].offset, again[i].bytes) == input.substr(entries[i].offset, entries[i].bytes),
            "an entry reads back as another");
  }
}

}  // namespace gpux::fuzz
