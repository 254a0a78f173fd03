#include "embedding/ready_texts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpux::embedding {

/// The texts of a run, as far as they are chosen.
class ReadyTexts::Group {
 public:
  explicit Group(const runtime::BatchLimits& limits) : limits_(limits) {}

  [[nodiscard]] bool fits(std::size_t length) const noexcept {
    if (texts_.empty()) return true;
    const auto rows = static_cast<std::int64_t>(texts_.size()) + 1;
    if (rows > limits_.max_rows) return false;
    if (limits_.max_cost == 0) return true;
    const auto own = static_cast<std::int64_t>(length);
    const std::int64_t cost = limits_.counts_padding ? rows * std::max(longest_, own) : sum_ + own;
    return cost <= limits_.max_cost;
  }

  void add(ReadyText text) {
    const auto length = static_cast<std::int64_t>(text.prepared.length);
    longest_ = std::max(longest_, length);
    sum_ += length;
    texts_.push_back(std::move(text));
  }

  [[nodiscard]] std::vector<ReadyText> take() && { return std::move(texts_); }

 private:
  const runtime::BatchLimits& limits_;
  std::vector<ReadyText> texts_;
  std::int64_t longest_ = 0, sum_ = 0;
};

void ReadyTexts::add(ReadyText text) {
  const std::size_t length = text.prepared.length;
  const std::uint64_t index = text.index;
  lengths_.emplace(index, length);
  buckets_[length].emplace(index, std::move(text));
}

// False where it does not fit.
bool ReadyTexts::take_oldest(std::size_t length, Group& group) {
  if (!group.fits(length)) return false;
  const auto bucket = buckets_.find(length);
  auto oldest = bucket->second.extract(bucket->second.begin());
  if (bucket->second.empty()) buckets_.erase(bucket);
  lengths_.erase(oldest.key());
  group.add(std::move(oldest.mapped()));
  return true;
}

// In their order. A long text that does not fit is passed over, as shorter ones behind it may.
void ReadyTexts::take_any(Group& group) {
  constexpr int max_passed_over = 16;
  int passed_over = 0;
  for (auto next = lengths_.begin(); next != lengths_.end() && passed_over < max_passed_over && group.fits(0);) {
    const auto [index, length] = *next++;
    if (!group.fits(length)) {
      ++passed_over;
      continue;
    }
    const auto bucket = buckets_.find(length);
    auto text = bucket->second.extract(index);
    if (bucket->second.empty()) buckets_.erase(bucket);
    lengths_.erase(index);
    group.add(std::move(text.mapped()));
  }
}

void ReadyTexts::take_nearest(std::size_t length, Group& group) {
  while (!buckets_.empty()) {
    const auto above = buckets_.lower_bound(length);
    const bool has_below = above != buckets_.begin();
    std::size_t nearest = has_below ? std::prev(above)->first : above->first;
    if (above != buckets_.end() && (!has_below || above->first - length < length - nearest)) nearest = above->first;
    if (!take_oldest(nearest, group)) return;
  }
}

std::vector<ReadyText> ReadyTexts::take(const TextSharing& batching) {
  if (empty()) return {};
  Group group(batching.limits);
  const std::size_t length = lengths_.begin()->second;
  const auto bucket = buckets_.find(length);
  auto oldest = bucket->second.extract(lengths_.begin()->first);
  if (bucket->second.empty()) buckets_.erase(bucket);
  lengths_.erase(lengths_.begin());
  group.add(std::move(oldest.mapped()));
  if (batching.padding == nullptr) {
    while (buckets_.contains(length) && take_oldest(length, group)) {
    }
  } else if (!batching.limits.counts_padding) {
    take_any(group);
  } else {
    take_nearest(length, group);
  }
  return std::move(group).take();
}

void ReadyTexts::drop_behind(std::uint64_t index) {
  while (!lengths_.empty() && std::prev(lengths_.end())->first > index) {
    const auto last = std::prev(lengths_.end());
    const auto bucket = buckets_.find(last->second);
    bucket->second.erase(last->first);
    if (bucket->second.empty()) buckets_.erase(bucket);
    lengths_.erase(last);
  }
}

}  // namespace gpux::embedding
