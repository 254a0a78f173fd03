#include "encoder/attention_plan.h"

#include <algorithm>
#include <span>

namespace gpux_cpu::encoder {
namespace {

/// The chunks of one text.
class TextPlan {
 public:
  TextPlan(const PackedTokens& packed, std::size_t text, const AttentionScope& scope, std::span<KeyRange> ranges,
           std::vector<AttentionChunk>& chunks)
      : scope_(scope),
        text_(text),
        rows_(packed.text_starts[text + 1] - packed.text_starts[text]),
        unmasked_(packed.unmasked_counts[text]),
        positions_(packed.positions.data() + packed.text_starts[text], rows_),
        ranges_(ranges),
        chunks_(chunks) {}

  void add() {
    if (rows_ == 0) return;
    if (unmasked_ == 0) {
      add_all_masked(0, rows_);
      return;
    }
    for (std::size_t row = 0; row < ranges_.size(); ++row) ranges_[row] = range_of(row);
    add_attending(0, unmasked_);
    for (std::size_t first = unmasked_; first < rows_;) {
      std::size_t last = first + 1;
      while (last < rows_ && has_keys(last) == has_keys(first)) ++last;
      if (has_keys(first)) {
        add_attending(first, last);
      } else {
        add_all_masked(first, last);
      }
      first = last;
    }
  }

 private:
  [[nodiscard]] bool has_keys(std::size_t row) const {
    if (row >= unmasked_ && scope_.mask_excludes_queries) return false;
    return ranges_.empty() || ranges_[row].first < ranges_[row].last;
  }

  // Of the unmasked keys, whose positions are ascending.
  [[nodiscard]] KeyRange range_of(std::size_t row) const {
    const std::size_t position = positions_[row];
    const auto keys = positions_.first(unmasked_);
    const auto index = [&](auto found) { return static_cast<std::uint32_t>(found - keys.begin()); };
    KeyRange range{0, static_cast<std::uint32_t>(unmasked_)};
    if (scope_.window) {
      const Window window = *scope_.window;
      range.first = index(std::ranges::lower_bound(keys, position - std::min(position, window.left)));
      range.last = index(std::ranges::upper_bound(keys, position + window.right));
    }
    if (scope_.causal) range.last = std::min(range.last, index(std::ranges::upper_bound(keys, position)));
    return range;
  }

  void add_attending(std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += queries_per_chunk) {
      const std::size_t last = std::min(first + queries_per_chunk, end);
      AttentionChunk chunk{text_, first, last, 0, unmasked_, false};
      if (!ranges_.empty()) {
        const auto own = ranges_.subspan(first, last - first);
        chunk.first_key = std::ranges::min(own, {}, &KeyRange::first).first;
        chunk.last_key = std::ranges::max(own, {}, &KeyRange::last).last;
        for (KeyRange& range : own) {
          range.first -= static_cast<std::uint32_t>(chunk.first_key);
          range.last -= static_cast<std::uint32_t>(chunk.first_key);
        }
      }
      chunks_.push_back(chunk);
    }
  }

  void add_all_masked(std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += queries_per_chunk) {
      chunks_.push_back({text_, first, std::min(first + queries_per_chunk, end), 0, rows_, true});
    }
  }

  const AttentionScope& scope_;
  const std::size_t text_, rows_, unmasked_;
  const std::span<const std::size_t> positions_;
  const std::span<KeyRange> ranges_;
  std::vector<AttentionChunk>& chunks_;
};

}  // namespace

AttentionPlan plan_attention(const PackedTokens& packed, std::size_t first_text, std::size_t last_text,
                             const AttentionScope& scope) {
  AttentionPlan plan;
  const std::size_t first_row = packed.text_starts[first_text];
  if (scope.window || scope.causal) plan.ranges.resize(packed.text_starts[last_text] - first_row);
  for (std::size_t text = first_text; text < last_text; ++text) {
    std::span<KeyRange> ranges = plan.ranges;
    if (!ranges.empty()) {
      ranges =
          ranges.subspan(packed.text_starts[text] - first_row, packed.text_starts[text + 1] - packed.text_starts[text]);
    }
    TextPlan(packed, text, scope, ranges, plan.chunks).add();
  }
  return plan;
}

}  // namespace gpux_cpu::encoder
