#include "runtime/batch.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "gpux/error.h"
#include "gpux/runtime.h"

namespace gpux::runtime {
namespace {

bool same_but_rows(const NamedValues& a, const NamedValues& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor& left = *a[i].second.tensor();
    const Tensor& right = *b[i].second.tensor();
    if (a[i].first != b[i].first || left.type() != right.type() || left.shape().size() != right.shape().size() ||
        !std::equal(left.shape().begin() + 1, left.shape().end(), right.shape().begin() + 1)) {
      return false;
    }
  }
  return true;
}

Tensor concatenate(std::span<const NamedValues> items, const BatchGroup& group, std::size_t input) {
  const Tensor& first = *items[group.items.front()][input].second.tensor();
  Shape shape = first.shape();
  shape[0] = 0;
  for (const std::int64_t rows : group.rows) shape[0] += rows;
  Tensor joined = Tensor::allocate(first.type(), shape);
  if (first.type() == ElementType::string) {
    auto target = joined.mutable_strings().begin();
    for (const std::size_t item : group.items) {
      const auto strings = items[item][input].second.tensor()->strings();
      target = std::copy(strings.begin(), strings.end(), target);
    }
    return joined;
  }
  std::byte* target = joined.mutable_bytes().data();
  for (const std::size_t item : group.items) {
    const auto bytes = items[item][input].second.tensor()->bytes();
    if (!bytes.empty()) std::memcpy(target, bytes.data(), bytes.size());
    target += bytes.size();
  }
  return joined;
}

}  // namespace

std::optional<std::int64_t> shared_rows(const NamedValues& item) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, value] : item) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->shape().empty() || bits_of(tensor->type()) % 8 != 0) return std::nullopt;
    if (rows && *rows != tensor->shape()[0]) return std::nullopt;
    rows = tensor->shape()[0];
  }
  return rows;
}

bool can_share_runs(const Signature& signature) {
  std::optional<std::string> batch_name;
  const auto free_first = [&](const SignatureEntry& entry) {
    if (entry.type.kind != ValueKind::tensor || !entry.type.dimensions || entry.type.dimensions->empty()) return false;
    const Dimension& first = entry.type.dimensions->front();
    if (first.size) return false;
    if (!batch_name) batch_name = first.name;
    return *batch_name == first.name;
  };
  return !signature.inputs.empty() && std::all_of(signature.inputs.begin(), signature.inputs.end(), free_first) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), free_first);
}

std::vector<BatchGroup> plan_batches(std::span<const NamedValues> items, std::uint64_t row_limit) {
  std::vector<BatchGroup> groups;
  std::vector<std::int64_t> group_rows;
  std::vector<bool> open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::optional<std::int64_t> shared = shared_rows(items[i]);
    const bool joins = shared.has_value();
    const std::int64_t rows = shared.value_or(0);
    bool placed = false;
    for (std::size_t g = groups.size(); joins && !placed && g-- > 0;) {
      if (!open[g] || !same_but_rows(items[groups[g].items.front()], items[i])) continue;
      if (row_limit != 0 && static_cast<std::uint64_t>(group_rows[g] + rows) > row_limit) continue;
      groups[g].items.push_back(i);
      groups[g].rows.push_back(rows);
      group_rows[g] += rows;
      placed = true;
    }
    if (placed) continue;
    groups.push_back({{i}, {rows}});
    group_rows.push_back(rows);
    open.push_back(joins);
  }
  return groups;
}

NamedValues concatenate(std::span<const NamedValues> items, const BatchGroup& group) {
  const NamedValues& first = items[group.items.front()];
  if (group.items.size() == 1) return first;
  NamedValues joined;
  for (std::size_t input = 0; input < first.size(); ++input) {
    joined.emplace_back(first[input].first, concatenate(items, group, input));
  }
  return joined;
}

std::vector<NamedValues> split(const NamedValues& results, const BatchGroup& group) {
  if (group.items.size() == 1) return {results};
  std::int64_t total = 0;
  for (const std::int64_t rows : group.rows) total += rows;
  for (const auto& [name, value] : results) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->shape().empty() || tensor->shape()[0] != total) return {};
  }
  std::vector<NamedValues> parts(group.items.size());
  std::int64_t first_row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const auto& [name, value] : results) {
      parts[i].emplace_back(name, value.tensor()->rows(first_row, group.rows[i]));
    }
    first_row += group.rows[i];
  }
  return parts;
}

}  // namespace gpux::runtime

namespace gpux {

std::vector<NamedValues> Runtime::batch_infer(std::span<const NamedValues> items, const InferOptions& options,
                                              std::uint64_t batch_limit) const {
  std::vector<NamedValues> results(items.size());
  const auto one_by_one = [&](const std::vector<std::size_t>& indices) {
    for (const std::size_t item : indices) {
      try {
        results[item] = infer(items[item], options);
      } catch (const Error& error) {
        throw error.within("item " + std::to_string(item));
      }
    }
  };
  if (!runtime::can_share_runs(info().signature)) {
    std::vector<std::size_t> all(items.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    one_by_one(all);
    return results;
  }
  for (const runtime::BatchGroup& group : runtime::plan_batches(items, batch_limit)) {
    std::vector<NamedValues> parts;
    if (group.items.size() > 1) parts = runtime::split(infer(runtime::concatenate(items, group), options), group);
    if (parts.empty()) {
      one_by_one(group.items);
      continue;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) results[group.items[i]] = std::move(parts[i]);
  }
  return results;
}

}  // namespace gpux
