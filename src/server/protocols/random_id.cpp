#include "server/protocols/random_id.h"

#include <random>

#include <fmt/format.h>

namespace gpux::server {

std::string random_id(std::string_view prefix) {
  std::random_device device;
  std::string id(prefix);
  constexpr int words = 4;
  for (int i = 0; i < words; ++i) id += fmt::format("{:08x}", static_cast<std::uint32_t>(device()));
  return id;
}

}  // namespace gpux::server
