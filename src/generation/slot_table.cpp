#include "generation/slot_table.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "gpux/error.h"

namespace gpux::generation {

std::size_t SlotTable::owned() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.owner.has_value(); }));
}

std::size_t SlotTable::tokens() const noexcept {
  std::size_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.size;
  return sum;
}

std::vector<std::size_t> SlotTable::sizes() const {
  std::vector<std::size_t> sizes;
  for (const Slot& slot : slots_) sizes.push_back(slot.size);
  return sizes;
}

std::optional<SlotTable::Match> SlotTable::longest_match(std::string_view scope,
                                                         std::span<const std::uint32_t> prompt) const {
  std::optional<Match> best;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].scope != scope) continue;
    const std::span<const std::uint32_t> held = std::span(slots_[i].prompt).first(slots_[i].computed);
    const auto tokens = static_cast<std::size_t>(std::ranges::mismatch(held, prompt).in1 - held.begin());
    if (tokens > (best ? best->tokens : 0)) best = Match{i, tokens};
  }
  return best;
}

std::size_t SlotTable::free_slot(std::optional<std::size_t> spared) const {
  const Slot* best = nullptr;
  const auto rank = [&](const Slot& slot) {
    const bool is_spared = spared && &slot == &slots_[*spared];
    return std::tuple(is_spared, slot.size != 0, slot.last_use);
  };
  for (const Slot& slot : slots_) {
    if (!slot.owner && (best == nullptr || rank(slot) < rank(*best))) best = &slot;
  }
  if (best == nullptr) throw Error(ErrorCode::internal, "every slot has a sequence");
  return static_cast<std::size_t>(best - slots_.data());
}

std::optional<std::size_t> SlotTable::least_recent() const {
  std::optional<std::size_t> oldest;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].owner || slots_[i].size == 0) continue;
    if (!oldest || slots_[i].last_use < slots_[*oldest].last_use) oldest = i;
  }
  return oldest;
}

void SlotTable::take(std::size_t slot, SequenceId owner, Prompt prompt, std::size_t kept) {
  slots_.at(slot) = {.owner = owner,
                     .size = kept,
                     .scope = std::move(prompt.scope),
                     .prompt = std::move(prompt.tokens),
                     .computed = kept,
                     .last_use = ++clock_};
}

void SlotTable::add_prompt(std::size_t slot, std::size_t tokens) {
  Slot& taken = slots_.at(slot);
  taken.size += tokens;
  taken.computed += tokens;
}

void SlotTable::add_generated(std::size_t slot) {
  ++slots_.at(slot).size;
}

std::size_t SlotTable::leave(std::size_t slot, std::span<const std::uint32_t> text) {
  Slot& left = slots_.at(slot);
  left.owner.reset();
  left.prompt.resize(left.computed);
  const std::span<const std::uint32_t> kept = text.first(std::min(left.size, text.size()));
  if (kept.size() > left.computed) {
    try {
      left.prompt.assign(kept.begin(), kept.end());
      left.computed = kept.size();
    } catch (const std::bad_alloc&) {  // the prompt alone is kept
      left.prompt.resize(left.computed);
    }
  }
  left.size = left.computed;
  left.last_use = ++clock_;
  return left.size;
}

void SlotTable::clear(std::size_t slot) {
  slots_.at(slot) = {};
}

void SlotTable::exchange(std::size_t a, std::size_t b) {
  std::swap(slots_.at(a), slots_.at(b));
}

void SlotTable::join() {
  ++decoding_;
}

void SlotTable::part() {
  --decoding_;
}

void SlotTable::check() const {
  const auto require = [](bool holds, const char* rule) {
    if (!holds) throw Error(ErrorCode::internal, std::string("slots: ") + rule);
  };
  require(decoding_ <= slots_.size(), "more sequences decode than there are slots");
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    require(i >= decoding_ || slot.owner.has_value(), "a slot that decodes has no sequence");
    require(slot.computed <= slot.prompt.size() && slot.computed <= slot.size, "more was computed than there is");
    require(slot.owner || slot.size == slot.computed, "a slot of no sequence holds generated tokens");
    for (std::size_t j = 0; j < i; ++j) require(!slot.owner || slots_[j].owner != slot.owner, "two have one sequence");
  }
}

}  // namespace gpux::generation
