// A run of the provider for text encoders: any precision, instruction set, batch, mask and choice of results has the
// answer of the plain encoder, or is refused where the batch is not valid.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "encoder/checked_run.h"
#include "fuzzer.h"

namespace gpux::fuzz {

void read_hostile(std::string_view input) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(input.data());
  const std::string wrong = gpux_cpu::encoder::checked_run(std::span(bytes, input.size()));
  require(wrong.empty(), wrong);
}

}  // namespace gpux::fuzz
