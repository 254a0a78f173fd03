#include "server/api_keys.h"

#include "base/spelling.h"

namespace gpux::server {
namespace {

// Compares all of both, so that the time taken does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (a[i] ^ (b.empty() ? '\0' : b[i % b.size()])));
  }
  return differs == 0;
}

}  // namespace

bool holds_key(std::span<const std::string> keys, std::string_view authorization, std::string_view x_api_key) {
  if (keys.empty()) return true;
  constexpr std::string_view scheme = "bearer ";
  std::string_view given = x_api_key;
  if (authorization.size() > scheme.size() && lower(authorization.substr(0, scheme.size())) == scheme) {
    given = authorization.substr(scheme.size());
  }
  bool found = false;
  for (const std::string& key : keys) found |= equal_in_constant_time(given, key);
  return found;
}

}  // namespace gpux::server
