// The store's index.json. What is written of it reads back the same.
#include <algorithm>
#include <string>

#include "base/files.h"
#include "fuzzer.h"
#include "store/layout_index.h"

namespace gpux::fuzz {
namespace {

bool equal(const LayoutIndex& left, const LayoutIndex& right) {
  const auto same = [](const LayoutIndex::Entry& a, const LayoutIndex::Entry& b) {
    return a.reference == b.reference && a.digest == b.digest && a.created == b.created;
  };
  const auto a = left.entries();
  const auto b = right.entries();
  return left.digests() == right.digests() && std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

void read_hostile(std::string_view input) {
  write_file_atomically(scratch_folder() / "index.json", input);
  LayoutIndex index = LayoutIndex::read(scratch_folder());
  must_succeed("naming a manifest", [&] {
    const Reference name{"digits", "1.0.0"};
    index.set(name, {std::string(64, 'a'), 1}, "2025-01-31T12:00:00Z");
    require(index.find(name).has_value(), "a name that was given is not there");
    index.write(scratch_folder());
    require(equal(index, LayoutIndex::read(scratch_folder())), "the index written reads back as another");
    index.remove(name);
    require(!index.find(name), "a name that was taken away is there");
  });
}

}  // namespace gpux::fuzz
