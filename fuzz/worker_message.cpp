// What a worker process answers, which runs code of others: values in shared memory, and the report of a load.
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzer.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "isolation/load_message.h"
#include "isolation/value_encoding.h"

namespace {

using gpux::fuzz::require;
namespace isolation = gpux::isolation;

constexpr std::align_val_t page{4096};  // shared memory begins with one

// Refused as what it is, or read.
template <typename Call>
void read(const Call& call) {
  try {
    call();
  } catch (const gpux::Error& error) {
    using gpux::ErrorCode;
    require(error.code() == ErrorCode::internal || error.code() == ErrorCode::invalid_input,
            "refused as something else");
  }
}

// In memory of its own, so that nothing beyond it can be read unseen.
std::shared_ptr<std::byte> in_memory(std::span<const std::byte> bytes) {
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(::operator new(bytes.size() + 1, page)),
                                          [](std::byte* begin) { ::operator delete(begin, page); });
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return memory;
}

void read_values(std::span<const std::byte> bytes, const isolation::ValuesPlace& place) {
  const std::shared_ptr<std::byte> memory = in_memory(bytes);
  const std::span<const std::byte> given(memory.get(), bytes.size());
  read([&] { (void)isolation::read_values(given, place, nullptr); });
  read([&] {
    const isolation::RunInputs values = isolation::read_values(given, place, memory);
    // What was read can be written again, in as many bytes as it was counted to need.
    const isolation::EncodedValues encoded = isolation::encode_values(values.values, values.outputs);
    require(encoded.place.bytes <= 4 * (bytes.size() + 64), "values are larger than what they were read from");
    const std::shared_ptr<std::byte> copy = in_memory(std::vector<std::byte>(encoded.place.bytes));
    isolation::write_values(encoded, copy.get());
  });
}

// Values of several kinds as a worker writes them.
std::vector<std::byte> written_values(isolation::ValuesPlace& place) {
  static const gpux::NamedValues values{
      {"numbers", gpux::Tensor::of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6})},
      {"words", gpux::Tensor::of_strings({2}, {"one", "another one"})},
      {"none", gpux::Value()},
  };
  static const std::vector<std::size_t> outputs{0, 2};
  const isolation::EncodedValues encoded = isolation::encode_values(values, outputs);
  std::vector<std::byte> bytes(encoded.place.bytes);
  isolation::write_values(encoded, bytes.data());
  place = encoded.place;
  return bytes;
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input));
  // A place, and the memory.
  isolation::ValuesPlace place;
  if (bytes.size() >= sizeof(place)) {
    std::memcpy(&place, bytes.data(), sizeof(place));
    read_values(bytes.subspan(sizeof(place)), place);
  }
  place = {.bytes = bytes.size(), .head = 0, .head_bytes = bytes.size()};
  read_values(bytes, place);
  // Changes of what makes sense: 0 leaves a byte as it is.
  std::vector<std::byte> written = written_values(place);
  for (std::size_t i = 0; i < bytes.size(); ++i) written[(place.head + i) % written.size()] ^= bytes[i];
  read_values(written, place);
  read([&] { (void)isolation::load_report_from(std::string(input)); });
}
