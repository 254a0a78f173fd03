#include "generation/copied_caches.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace gpux::generation {
namespace {

// The first tokens of [1, heads, tokens, head_size]: the same, or in host memory of its own.
DeviceTensor first_tokens(const DeviceTensor& all, std::size_t count) {
  const Shape& shape = all.shape();
  const auto tokens = static_cast<std::size_t>(shape[2]);
  if (count >= tokens) return all;
  Tensor first = Tensor::allocate(all.type(), {shape[0], shape[1], static_cast<std::int64_t>(count), shape[3]});
  if (count == 0) return DeviceTensor(std::move(first));
  const Tensor values = all.read();
  const std::size_t row_bytes = values.byte_size() / (static_cast<std::size_t>(shape[1]) * tokens);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape[1]); ++head) {
    std::memcpy(first.mutable_bytes().data() + head * count * row_bytes,
                values.bytes().data() + head * tokens * row_bytes, count * row_bytes);
  }
  return DeviceTensor(std::move(first));
}

// Some tokens of [1, heads, tokens, head_size].
void copy_tokens(const Tensor& all, std::size_t first, std::size_t count, std::span<std::byte> rows) {
  const auto heads = static_cast<std::size_t>(all.shape()[1]), tokens = static_cast<std::size_t>(all.shape()[2]);
  const std::size_t row_bytes = all.byte_size() / (heads * tokens);
  for (std::size_t head = 0; head < heads; ++head) {
    std::memcpy(rows.data() + head * count * row_bytes, all.bytes().data() + (head * tokens + first) * row_bytes,
                count * row_bytes);
  }
}

std::vector<std::size_t> all_outputs(const runtime::SessionReplica& session, const DecoderSignature& signature) {
  std::vector<std::string> names{signature.names.logits};
  for (std::size_t array = 0; array < signature.cache.arrays; ++array) names.push_back(signature.present(array));
  return session.output_indices(names);
}

}  // namespace

CopiedCaches::CopiedCaches(runtime::SessionReplica& session, const DecoderSignature& signature, std::size_t slots)
    : session_(session),
      signature_(signature),
      outputs_(all_outputs(session, signature)),
      none_(Tensor::allocate(signature.cache.type, {1, signature.cache.heads, 0, signature.cache.head_size})),
      slots_(slots, std::vector<DeviceTensor>(signature.cache.arrays, none_)) {}

Tensor CopiedCaches::run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) {
  require_last_logits(wanted);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) parts.push_back(run_one(first_slot + i, rows[i]));
  return joined_rows(parts);
}

Tensor CopiedCaches::run_one(std::size_t slot, const DecoderRow& row) {
  std::vector<DeviceTensor>& arrays = slots_[slot];
  NamedDeviceTensors caches;
  caches.reserve(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    caches.emplace_back(signature_.past(i), first_tokens(arrays[i], row.past));
  }
  NamedDeviceTensors outputs = session_.run_on_device(token_inputs({&row, 1}, signature_), caches, outputs_);
  for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = std::move(outputs[i + 1].second);
  return last_logits(outputs.front().second.read());
}

void CopiedCaches::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  for (std::size_t i = 0; i < slots_[to].size(); ++i) slots_[to][i] = first_tokens(slots_[from][i], tokens);
}

void CopiedCaches::exchange(std::size_t a, std::size_t /*tokens_a*/, std::size_t b, std::size_t /*tokens_b*/) noexcept {
  std::swap(slots_[a], slots_[b]);
}

void CopiedCaches::release(std::size_t slot, std::size_t first, std::size_t /*end*/) noexcept {
  try {
    for (DeviceTensor& array : slots_[slot]) array = first == 0 ? none_ : first_tokens(array, first);
  } catch (const std::exception&) {
  }
}

void CopiedCaches::read_tokens(const SlotTokens& from, std::span<std::byte> rows) {
  const std::size_t bytes = rows.size() / slots_[from.slot].size();  // of an array
  for (std::size_t i = 0; i < slots_[from.slot].size(); ++i) {
    copy_tokens(slots_[from.slot][i].read(), from.first, from.tokens, rows.subspan(i * bytes, bytes));
  }
}

void CopiedCaches::write_tokens(const SlotTokens& to, std::span<const std::byte> rows) {
  const CacheLayout& layout = signature_.cache;
  const std::size_t bytes = rows.size() / slots_[to.slot].size();
  std::vector<DeviceTensor> arrays;
  for (std::size_t i = 0; i < slots_[to.slot].size(); ++i) {
    const auto end = static_cast<std::int64_t>(to.first + to.tokens);
    Tensor all = Tensor::allocate(layout.type, {1, layout.heads, end, layout.head_size});
    const Tensor before = slots_[to.slot][i].read();
    const std::size_t own_row = all.byte_size() / static_cast<std::size_t>(layout.heads * end);
    for (std::size_t head = 0; head < static_cast<std::size_t>(layout.heads); ++head) {
      std::byte* const place = all.mutable_bytes().data() + head * static_cast<std::size_t>(end) * own_row;
      const std::size_t held = static_cast<std::size_t>(before.shape()[2]) * own_row;
      std::memcpy(place, before.bytes().data() + head * held, to.first * own_row);
      std::memcpy(place + to.first * own_row, rows.data() + i * bytes + head * to.tokens * own_row,
                  to.tokens * own_row);
    }
    arrays.emplace_back(std::move(all));
  }
  slots_[to.slot] = std::move(arrays);
}

std::optional<std::string> CopiedCaches::note() const {
  if (session_.keeps_on_device(signature_.layers.front().present_key)) {
    return "keys and values stay on the device, and each text runs alone";
  }
  return "keys and values are copied at each step: the model has no GroupQueryAttention";
}

}  // namespace gpux::generation
