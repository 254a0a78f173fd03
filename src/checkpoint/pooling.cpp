#include "checkpoint/pooling.h"

#include <array>
#include <utility>

namespace gpux::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, Pooling>, 6> pooling_names{{
    {"cls", Pooling::cls},
    {"max", Pooling::max},
    {"mean", Pooling::mean},
    {"mean_sqrt_len_tokens", Pooling::mean_sqrt_length},
    {"weightedmean", Pooling::weighted_mean},
    {"lasttoken", Pooling::last_token},
}};

}  // namespace

std::optional<Pooling> pooling_from(std::string_view name) noexcept {
  for (const auto& [known, pooling] : pooling_names) {
    if (known == name) return pooling;
  }
  return std::nullopt;
}

std::string_view name_of(Pooling pooling) noexcept {
  for (const auto& [name, known] : pooling_names) {
    if (known == pooling) return name;
  }
  return {};
}

}  // namespace gpux::checkpoint
