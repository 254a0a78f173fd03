#include "runtime/scheduling/run_times.h"

#include <string_view>

namespace gpux::runtime {
namespace {

// Clients choose sizes: more than this many are forgotten, and learned again.
constexpr std::size_t max_keys = 4096;
constexpr int forgetting = 4;

class Hash {
 public:
  void add(std::uint64_t number) noexcept {
    value_ = (value_ ^ number) * 0x9e3779b97f4a7c15U;
    value_ ^= value_ >> 32U;
  }

  void add(std::string_view text) noexcept {
    for (const char character : text) add(static_cast<unsigned char>(character));
    add(text.size());
  }

  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

std::optional<std::uint64_t> size_key(const NamedValues& inputs, std::span<const std::size_t> outputs) noexcept {
  Hash hash;
  for (const auto& [name, value] : inputs) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->type() == ElementType::string) return std::nullopt;
    hash.add(name);
    hash.add(static_cast<std::uint64_t>(tensor->type()));
    hash.add(tensor->shape().size());
    for (const std::int64_t size : tensor->shape()) hash.add(static_cast<std::uint64_t>(size));
  }
  for (const std::size_t output : outputs) hash.add(output);
  return hash.value();
}

void RunTimes::add(std::uint64_t key, std::chrono::nanoseconds time) {
  if (times_.size() >= max_keys && !times_.contains(key)) times_.clear();
  const auto [place, added] = times_.emplace(key, time);
  std::chrono::nanoseconds& known = place->second;
  known = time > known ? time : known - (known - time) / forgetting;
}

bool RunTimes::are_below(std::uint64_t key, std::chrono::nanoseconds bound) const noexcept {
  const auto found = times_.find(key);
  return found != times_.end() && found->second < bound;
}

}  // namespace gpux::runtime
