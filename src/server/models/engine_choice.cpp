#include "server/models/engine_choice.h"

#include <algorithm>

namespace gpux::server {

std::uint64_t beginning_of(std::string_view scope, std::span<const std::uint32_t> prompt) {
  constexpr std::size_t most_tokens = 64;
  // FNV-1a, 64 bits.
  constexpr std::uint64_t prime = 0x100000001b3U;
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * prime; };
  for (const char character : scope) add(static_cast<unsigned char>(character));
  for (const std::uint32_t token : prompt.first(std::min(prompt.size(), most_tokens))) add(token);
  // The low bits of a product depend on low bits alone.
  return hash ^ (hash >> 32U);
}

std::size_t choose_engine(std::span<const EngineLoad> engines, std::uint64_t beginning) {
  const bool has_usable = std::ranges::any_of(engines, &EngineLoad::is_usable);
  const auto may_be = [&](const EngineLoad& engine) { return engine.is_usable || !has_usable; };
  std::size_t least = engines.size();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (may_be(engines[i]) && (least == engines.size() || engines[i].texts < engines[least].texts)) least = i;
  }
  const std::size_t preferred = beginning % engines.size();
  const EngineLoad& wanted = engines[preferred];
  const std::size_t more = std::max<std::size_t>(wanted.slots / 4, 1);
  return may_be(wanted) && wanted.texts <= engines[least].texts + more ? preferred : least;
}

}  // namespace gpux::server
