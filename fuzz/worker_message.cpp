// What a worker process answers, which runs code of others: values in shared memory, and the report of a load.
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "fuzzer.h"
#include "gpux/error.h"
#include "runtime/isolation/load_message.h"
#include "runtime/isolation/value_encoding.h"

namespace {

using gpux::fuzz::require;
namespace isolation = gpux::runtime::isolation;

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

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(::operator new(input.size() + 1, page)),
                                          [](std::byte* begin) { ::operator delete(begin, page); });
  std::memcpy(memory.get(), input.data(), input.size());
  const std::span<const std::byte> bytes(memory.get(), input.size());
  read([&] { (void)isolation::read_values(bytes, nullptr); });
  read([&] {
    const isolation::RunInputs values = isolation::read_values(bytes, memory);
    // What was read can be written again, in as many bytes as it was counted to need.
    const std::size_t size = isolation::size_of_values(values.values, values.outputs);
    require(size <= 64 * (input.size() + 64), "values are larger than what they were read from");
    std::string copy(size, '\0');
    isolation::write_values(values.values, values.outputs, reinterpret_cast<std::byte*>(copy.data()));
  });
  read([&] { (void)isolation::load_report_from(std::string(input)); });
}
