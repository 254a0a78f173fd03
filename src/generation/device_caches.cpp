#include "generation/device_caches.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "embedding/near_vectors.h"
#include "generation/cache_groups.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

// What rows compute that nobody reads.
constexpr std::uint32_t any_token = 0;

}  // namespace

DeviceCaches::DeviceCaches(const Runtime& runtime, runtime::SessionReplica& session, const DecoderSignature& signature,
                           std::size_t slots)
    : runtime_(runtime),
      session_(session),
      signature_(signature),
      mover_(signature.cache, session.options_for_same_device()),
      logits_(session.output_indices({signature.names.logits})),
      slots_(slots) {}

Tensor DeviceCaches::run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) {
  require_last_logits(wanted);
  if (rows.size() > 1) return can_batch() ? run_together(first_slot, rows) : run_one_by_one(first_slot, rows);
  return takes_prompts_ ? run_together(first_slot, rows) : run_by_token(first_slot, rows.front());
}

Tensor DeviceCaches::run_by_token(std::size_t slot, const DecoderRow& row) {
  Tensor logits;
  for (std::size_t i = 0; i < row.tokens.size(); ++i) {
    const DecoderRow one{row.past + i, row.tokens.subspan(i, 1)};
    logits = run_together(slot, {&one, 1});
  }
  return logits;
}

Tensor DeviceCaches::run_one_by_one(std::size_t first_slot, std::span<const DecoderRow> rows) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) parts.push_back(run_together(first_slot + i, rows.subspan(i, 1)));
  return joined_rows(parts);
}

Tensor DeviceCaches::run_together(std::size_t first_slot, std::span<const DecoderRow> rows) {
  const std::span<Slot> slots = std::span(slots_).subspan(first_slot, rows.size());
  const std::size_t tokens = rows.front().tokens.size();
  std::size_t capacity = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    slots[i].tokens = rows[i].past;
    capacity = std::max(capacity, rows[i].past + tokens);
  }
  const std::shared_ptr<const Group> group = common_group(slots, capacity, tokens);
  const Tensor logits = run_group(*group, rows_of(*group, first_slot, rows));
  const auto vocabulary = static_cast<std::size_t>(logits.shape().back());
  Tensor ordered = Tensor::allocate(ElementType::float32,
                                    {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(vocabulary)});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    slots[i].tokens = rows[i].past + tokens;
    std::ranges::copy(logits.as<float>().subspan(slots[i].row * vocabulary, vocabulary),
                      ordered.mutable_as<float>().begin() + static_cast<std::ptrdiff_t>(i * vocabulary));
  }
  return ordered;
}

std::vector<DecoderRow> DeviceCaches::rows_of(const Group& group, std::size_t first_slot,
                                              std::span<const DecoderRow> rows) const {
  std::vector<DecoderRow> all(group.rows, {0, {&any_token, 1}});
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].group.get() != &group) continue;
    const bool runs = i >= first_slot && i < first_slot + rows.size();
    all[slots_[i].row] = runs ? rows[i - first_slot] : DecoderRow{slots_[i].tokens, {&any_token, 1}};
  }
  return all;
}

Tensor DeviceCaches::run_group(const Group& group, std::span<const DecoderRow> rows) {
  NamedDeviceTensors past, present;
  for (std::size_t i = 0; i < group.arrays.size(); ++i) {
    past.emplace_back(signature_.past(i), group.arrays[i]);
    present.emplace_back(signature_.present(i), group.arrays[i]);
  }
  try {
    const NamedDeviceTensors outputs = session_.run_on_device(token_inputs(rows, signature_), past, logits_, present);
    return last_logits(outputs.front().second.read());
  } catch (const Error& error) {
    is_short_of_memory_ = is_short_of_memory_ || error.code() == ErrorCode::resource_exhausted;
    throw;
  }
}

std::shared_ptr<const DeviceCaches::Group> DeviceCaches::common_group(std::span<Slot> slots, std::size_t capacity,
                                                                      std::size_t tokens) {
  const std::shared_ptr<const Group> group = slots.front().group;
  const auto is_in_group = [&](const Slot& slot) { return slot.group == group; };
  if (group != nullptr && std::ranges::all_of(slots, is_in_group)) {
    GroupRun run{.rows = group->rows,
                 .capacity = group->capacity,
                 .wanted_rows = slots.size(),
                 .wanted_capacity = capacity,
                 .tokens = tokens};
    run.has_room = !is_short_of_memory_;
    for (const Slot* user : users_of(*group)) run.has_room = run.has_room && user->tokens < group->capacity;
    if (runs_as_is(run)) return group;
  }
  move_together(slots, capacity_for(capacity));
  return slots.front().group;
}

void DeviceCaches::move_together(std::span<Slot> slots, std::size_t capacity) {
  std::vector<std::shared_ptr<const Group>> sources;
  for (const Slot& slot : slots) {
    const std::shared_ptr<const Group>& group = slot.group ? slot.group : empty_group();
    if (std::ranges::find(sources, group) == sources.end()) sources.push_back(group);
  }
  // Two sources at a time. `members` and `rows`: slots that are in `target`, and where.
  std::shared_ptr<const Group> target = sources.front();
  std::vector<std::size_t> members, rows;
  const auto take = [&](const Group& source, std::size_t first_row) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if ((slots[i].group ? slots[i].group : empty_).get() != &source) continue;
      members.push_back(i);
      rows.push_back(first_row + slots[i].row);
    }
  };
  take(*target, 0);
  const auto renumber = [&] {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  };
  if (sources.size() == 1) target = gathered(std::array{&target->arrays}, rows, capacity);
  for (std::size_t i = 1; i < sources.size(); ++i) {
    take(*sources[i], target->rows);
    target = gathered(std::array{&target->arrays, &sources[i]->arrays}, rows, capacity);
    renumber();
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    slots[members[i]].group = target;
    slots[members[i]].row = i;
  }
  for (const std::shared_ptr<const Group>& source : sources) move_out_of_sparse(source);
}

std::vector<DeviceCaches::Slot*> DeviceCaches::users_of(const Group& group) {
  std::vector<Slot*> users;
  for (Slot& slot : slots_) {
    if (slot.group.get() == &group) users.push_back(&slot);
  }
  return users;
}

void DeviceCaches::move_out_of_sparse(const std::shared_ptr<const Group>& group) {
  const std::vector<Slot*> users = users_of(*group);
  if (!is_sparse(group->rows, users.size())) return;
  std::vector<std::size_t> rows;
  std::size_t tokens = 0;
  for (const Slot* user : users) {
    rows.push_back(user->row);
    tokens = std::max(tokens, user->tokens);
  }
  try {
    const std::shared_ptr<const Group> smaller = gathered(std::array{&group->arrays}, rows, capacity_for(tokens));
    for (std::size_t i = 0; i < users.size(); ++i) {
      users[i]->group = smaller;
      users[i]->row = i;
    }
  } catch (const Error& error) {  // they stay where they are
    log::debug("keys and values are not moved to less memory: {}", error.message());
  }
}

std::shared_ptr<const DeviceCaches::Group> DeviceCaches::gathered(std::span<const DeviceArrays* const> sources,
                                                                  std::span<const std::size_t> rows,
                                                                  std::size_t capacity) {
  auto group = std::make_shared<Group>(
      Group{.arrays = mover_.gather(sources, rows, capacity), .rows = rows.size(), .capacity = capacity});
  for (std::size_t i = 0; i < group->arrays.size(); ++i) {
    if (group->arrays[i].is_on_device()) continue;
    group->arrays[i] = runtime_.upload(group->arrays[i].read(), signature_.past(i));
  }
  return group;
}

const std::shared_ptr<const DeviceCaches::Group>& DeviceCaches::empty_group() {
  if (empty_ != nullptr) return empty_;
  const CacheLayout& layout = signature_.cache;
  const Tensor zeros = Tensor::allocate(layout.type, {1, layout.heads, 1, layout.head_size});
  Group group{.arrays = {}, .rows = 1, .capacity = 1};
  for (std::size_t i = 0; i < layout.arrays; ++i) {
    group.arrays.push_back(runtime_.upload(zeros, signature_.past(i)));
  }
  empty_ = std::make_shared<const Group>(std::move(group));
  return empty_;
}

void DeviceCaches::compare_rows(std::size_t vocabulary, std::size_t max_tokens) {
  // On both sides of what kernels compute at once.
  std::array<std::size_t, 3> lengths{40, 3, 13};
  for (std::size_t& length : lengths) length = std::min(length, std::max<std::size_t>(max_tokens, 2) - 1);
  std::vector<std::vector<std::uint32_t>> texts;
  std::vector<DecoderRow> next;
  std::vector<Tensor> alone;
  sharing_ = Sharing::none;
  takes_prompts_ = true;
  for (const std::size_t length : lengths) {
    std::vector<std::uint32_t>& text = texts.emplace_back();
    for (std::size_t i = 0; i <= length; ++i) {
      text.push_back(static_cast<std::uint32_t>((length + i) * vocabulary / 20 % vocabulary));
    }
  }
  for (std::size_t slot = 0; slot < texts.size(); ++slot) {
    const std::span<const std::uint32_t> text = texts[slot];
    const DecoderRow prompt{0, text.first(lengths[slot])};
    const Tensor at_once = run_together(slot, {&prompt, 1}), by_token = run_by_token(slot, prompt);
    takes_prompts_ = takes_prompts_ && is_near(by_token, at_once);
    next.push_back({lengths[slot], text.last(1)});
    alone.push_back(run_together(slot, {&next.back(), 1}));
  }
  sharing_ = compare(alone, next);
}

bool DeviceCaches::is_near(const Tensor& expected, const Tensor& found) const {
  return embedding::are_near(Value(expected), Value(found), embedding::rounding_of(runtime_.verdict().precision));
}

DeviceCaches::Sharing DeviceCaches::compare(const std::vector<Tensor>& alone, const std::vector<DecoderRow>& rows) {
  Tensor together;
  try {
    together = run_together(0, rows);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    log::info("texts that share a run: {}", error.message());
    return Sharing::none;
  }
  Sharing sharing = Sharing::equal;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const std::size_t bytes = alone[i].byte_size();
    if (std::ranges::equal(alone[i].bytes(), together.bytes().subspan(i * bytes, bytes))) continue;
    Tensor row = Tensor::allocate(ElementType::float32, alone[i].shape());
    std::ranges::copy(together.bytes().subspan(i * bytes, bytes), row.mutable_bytes().begin());
    if (!is_near(alone[i], row)) return Sharing::none;
    sharing = Sharing::near;
  }
  return sharing;
}

void DeviceCaches::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  const Slot& source = slots_.at(from);
  if (source.group == nullptr || tokens == 0) {
    slots_[to] = {};
    return;
  }
  const std::size_t row = source.row;
  slots_[to] = {.group = gathered(std::array{&source.group->arrays}, {&row, 1}, capacity_for(tokens)),
                .row = 0,
                .tokens = tokens};
}

void DeviceCaches::exchange(std::size_t a, std::size_t /*tokens_a*/, std::size_t b, std::size_t /*tokens_b*/) noexcept {
  std::swap(slots_[a], slots_[b]);
}

void DeviceCaches::release(std::size_t slot, std::size_t first, std::size_t /*end*/) noexcept {
  slots_[slot].tokens = std::min(slots_[slot].tokens, first);
  if (slots_[slot].tokens == 0) slots_[slot] = {};
}

void DeviceCaches::read_tokens(const SlotTokens& /*from*/, std::span<std::byte> /*rows*/) {
  throw Error(ErrorCode::usage, "keys and values on a device are not copied to files");
}

void DeviceCaches::write_tokens(const SlotTokens& /*to*/, std::span<const std::byte> /*rows*/) {
  throw Error(ErrorCode::usage, "keys and values on a device are not copied from files");
}

std::optional<std::string> DeviceCaches::note() const {
  std::string note = "keys and values stay on the device, where the model writes them";
  switch (sharing_) {
    case Sharing::not_tried:
      break;
    case Sharing::none:
      note += ", and each text runs alone: together with others it failed, or its logits were not near";
      break;
    case Sharing::near:
      note += ", and texts share runs: their logits differ from those alone in the last digits";
      break;
    case Sharing::equal:
      note += ", and texts share runs: their logits were those of each alone, bit by bit";
      break;
  }
  if (!takes_prompts_)
    note += "; prompts run token by token: in runs of several tokens the provider gives other logits";
  return note;
}

}  // namespace gpux::generation
