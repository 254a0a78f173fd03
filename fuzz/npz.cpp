// A .npz file: a zip archive of .npy files. What is written of it reads back the same.
#include "tensor/npz.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "declared.h"
#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const NpzReading reading{.limit_bytes = std::uint64_t{64} << 20};
  const std::vector<NamedTensor> tensors = read_npz(std::as_bytes(std::span(input)), reading);
  const std::string file = write_npz(tensors);
  const std::vector<NamedTensor> again =
      must_succeed("reading what was written", [&] { return read_npz(std::as_bytes(std::span(file))); });
  const auto equal = [](const NamedTensor& a, const NamedTensor& b) {
    return a.first == b.first && same(a.second, b.second);
  };
  require(std::ranges::equal(tensors, again, equal), "the .npz written reads back as other tensors");
}
