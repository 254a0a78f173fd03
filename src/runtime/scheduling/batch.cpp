#include "runtime/scheduling/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>

#include "gpux/error.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/copy_corner.h"

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

// The joined tensor's sizes: all rows, and the largest of each other size.
Shape joined_shape(std::span<const NamedValues> items, const BatchGroup& group, std::size_t input) {
  Shape shape = items[group.items.front()][input].second.tensor()->shape();
  shape[0] = 0;
  for (std::size_t i = 0; i < group.items.size(); ++i) {
    const Shape& own = items[group.items[i]][input].second.tensor()->shape();
    shape[0] += group.rows[i];
    for (std::size_t d = 1; d < shape.size(); ++d) shape[d] = std::max(shape[d], own[d]);
  }
  shape[0] += group.filler_rows;
  return shape;
}

bool same_beyond_rows(const Shape& a, const Shape& b) {
  return std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
}

void fill(Tensor& tensor, const Tensor& element) {
  const auto bytes = element.bytes();
  // It is made of zeros already.
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; })) return;
  const auto target = tensor.mutable_bytes();
  std::copy(bytes.begin(), bytes.end(), target.begin());
  for (std::size_t done = bytes.size(); done < target.size();) {
    const std::size_t count = std::min(done, target.size() - done);
    std::memcpy(&target[done], target.data(), count);
    done += count;
  }
}

Tensor concatenate(std::span<const NamedValues> items, const BatchGroup& group, std::size_t input,
                   const Padding* padding) {
  const auto& [name, value] = items[group.items.front()][input];
  const Shape shape = joined_shape(items, group, input);
  Tensor joined = Tensor::allocate(value.tensor()->type(), shape);
  const auto is_shorter = [&](std::size_t item) {
    return !same_beyond_rows(items[item][input].second.tensor()->shape(), shape);
  };
  if (padding != nullptr && std::any_of(group.items.begin(), group.items.end(), is_shorter)) {
    if (const PaddedInput* padded = padded_input(*padding, name)) fill(joined, padded->fill);
  }
  std::int64_t row = 0;
  for (std::size_t i = 0; i < group.items.size(); ++i) {
    const Tensor& own = *items[group.items[i]][input].second.tensor();
    copy_corner(own, 0, joined, row, own.shape());
    row += group.rows[i];
  }
  const Tensor& first = *value.tensor();
  Shape first_row = first.shape();
  first_row[0] = 1;
  for (std::int64_t i = 0; i < group.filler_rows; ++i) copy_corner(first, 0, joined, row++, first_row);
  return joined;
}

// Dimensions of a result that are cut back.
struct Cut {
  std::size_t dimension = 0;
  std::int64_t whole = 0;
  std::span<const std::int64_t> own;  // of each item of the group
};

// What each item of the group has of a size; empty where they agree.
std::vector<std::int64_t> differing_sizes(const PaddedSize& size, const BatchGroup& group,
                                          std::span<const NamedValues> items) {
  std::vector<std::int64_t> own;
  for (const std::size_t item : group.items) own.push_back(own_size(size, items[item]).value_or(0));
  if (std::equal(own.begin() + 1, own.end(), own.begin())) own.clear();
  return own;
}

Tensor cut_part(const Tensor& whole, std::int64_t first_row, std::int64_t rows, std::size_t item,
                std::span<const Cut> cuts) {
  const auto keeps_all = [&](const Cut& cut) { return cut.own[item] == cut.whole; };
  // Rows of packed elements may begin within a byte.
  if (bits_of(whole.type()) % 8 == 0 && std::all_of(cuts.begin(), cuts.end(), keeps_all)) {
    return whole.rows(first_row, rows);
  }
  Shape shape = whole.shape();
  shape[0] = rows;
  for (const Cut& cut : cuts) shape[cut.dimension] = cut.own[item];
  Tensor part = Tensor::allocate(whole.type(), shape);
  copy_corner(whole, first_row, part, 0, shape);
  return part;
}

}  // namespace

std::int64_t BatchGroup::own_rows() const noexcept {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

std::optional<std::int64_t> shared_rows(const NamedValues& item) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, value] : item) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->shape().empty() || tensor->element_count() == 0) return std::nullopt;
    if (bits_of(tensor->type()) % 8 != 0) return std::nullopt;
    if (rows && *rows != tensor->shape()[0]) return std::nullopt;
    rows = tensor->shape()[0];
  }
  return rows;
}

bool has_telling_name(const Dimension& dimension) {
  std::string_view name = dimension.name;
  const std::size_t digits = name.size() - std::min(name.find_last_not_of("0123456789") + 1, name.size());
  if (digits == 0) return !name.empty() && name != "?" && name != "None";
  name.remove_suffix(digits);
  return name != "unk__" && !name.ends_with("DynamicDimension.") && !name.ends_with("_dim_");
}

bool signature_permits_sharing(const Signature& signature) {
  std::optional<std::string> batch_name;
  const auto free_first = [&](const SignatureEntry& entry) {
    if (entry.type.kind != ValueKind::tensor || !entry.type.dimensions || entry.type.dimensions->empty()) return false;
    const Dimension& first = entry.type.dimensions->front();
    if (first.size) return false;
    if (!has_telling_name(first)) return true;
    if (!batch_name) batch_name = first.name;
    return *batch_name == first.name;
  };
  return !signature.inputs.empty() && std::all_of(signature.inputs.begin(), signature.inputs.end(), free_first) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), free_first);
}

std::vector<BatchGroup> plan_batches(std::span<const NamedValues> items, std::uint64_t row_limit) {
  struct OpenGroup {
    std::size_t index;
    std::int64_t rows;
  };

  std::vector<BatchGroup> groups;
  std::vector<OpenGroup> open;
  const auto is_full = [&](std::int64_t rows) {
    return row_limit != 0 && static_cast<std::uint64_t>(rows) >= row_limit;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::optional<std::int64_t> shared = shared_rows(items[i]);
    const std::int64_t rows = shared.value_or(0);
    const auto takes = [&](const OpenGroup& group) {
      return (row_limit == 0 || static_cast<std::uint64_t>(group.rows + rows) <= row_limit) &&
             same_but_rows(items[groups[group.index].items.front()], items[i]);
    };
    const auto place = shared ? std::find_if(open.rbegin(), open.rend(), takes) : open.rend();
    if (place == open.rend()) {
      if (shared && !is_full(rows)) open.push_back({groups.size(), rows});
      groups.push_back({.items = {i}, .rows = {rows}});
      continue;
    }
    groups[place->index].items.push_back(i);
    groups[place->index].rows.push_back(rows);
    place->rows += rows;
    if (is_full(place->rows)) open.erase(std::next(place).base());
  }
  return groups;
}

NamedValues concatenate(std::span<const NamedValues> items, const BatchGroup& group, const Padding* padding) {
  const NamedValues& first = items[group.items.front()];
  if (group.items.size() == 1) return first;
  NamedValues joined;
  for (std::size_t input = 0; input < first.size(); ++input) {
    joined.emplace_back(first[input].first, concatenate(items, group, input, padding));
  }
  return joined;
}

std::vector<NamedValues> split(const NamedValues& results, const BatchGroup& group, std::span<const NamedValues> items,
                               const Padding* padding) {
  if (group.items.size() == 1) return {results};
  const std::int64_t total = group.own_rows() + group.filler_rows;
  std::vector<std::vector<std::int64_t>> own_sizes;
  if (padding != nullptr) {
    for (const PaddedSize& size : padding->sizes) own_sizes.push_back(differing_sizes(size, group, items));
  }
  std::vector<NamedValues> parts(group.items.size());
  std::vector<Cut> cuts;
  for (const auto& [name, value] : results) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->shape().empty() || tensor->shape()[0] != total) return {};
    cuts.clear();
    for (std::size_t s = 0; s < own_sizes.size(); ++s) {
      if (own_sizes[s].empty()) continue;
      const std::int64_t whole = *std::max_element(own_sizes[s].begin(), own_sizes[s].end());
      for (const DimensionPlace& place : padding->sizes[s].outputs) {
        if (place.value != name) continue;
        if (place.dimension >= tensor->shape().size() || tensor->shape()[place.dimension] != whole) return {};
        cuts.push_back({place.dimension, whole, own_sizes[s]});
      }
    }
    std::int64_t first_row = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].emplace_back(name, cut_part(*tensor, first_row, group.rows[i], i, cuts));
      first_row += group.rows[i];
    }
  }
  return parts;
}

std::vector<NamedValues> infer_in_groups(const Runtime& runtime, std::span<const NamedValues> items,
                                         const InferOptions& options, std::uint64_t row_limit,
                                         std::int64_t filled_rows) {
  std::vector<NamedValues> results(items.size());
  const auto one_by_one = [&](const std::vector<std::size_t>& indices) {
    for (const std::size_t item : indices) {
      try {
        results[item] = runtime.infer(items[item], options);
      } catch (const Error& error) {
        throw error.within("item " + std::to_string(item));
      }
    }
  };
  const auto together = [&](const BatchGroup& group) -> std::vector<NamedValues> {
    if (group.items.size() < 2) return {};
    try {
      return split(runtime.infer(concatenate(items, group), options), group);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::deadline_exceeded || error.code() == ErrorCode::interrupted) throw;
      return {};
    }
  };
  for (BatchGroup& group : plan_batches(items, row_limit)) {
    if (group.items.size() > 1) group.filler_rows = std::max<std::int64_t>(filled_rows - group.own_rows(), 0);
    std::vector<NamedValues> parts = together(group);
    if (parts.empty()) one_by_one(group.items);
    for (std::size_t i = 0; i < parts.size(); ++i) results[group.items[i]] = std::move(parts[i]);
  }
  return results;
}

}  // namespace gpux::runtime

namespace gpux {

std::vector<NamedValues> Runtime::batch_infer(std::span<const NamedValues> items, const InferOptions& options,
                                              std::uint64_t batch_limit) const {
  const bool may_share =
      items.size() > 1 && batch_limit != 1 && run_sharing({.requests = items.size(), .sizes = {}}).shared;
  return runtime::infer_in_groups(*this, items, options,
                                  !may_share         ? 1
                                  : batch_limit == 0 ? default_batch_rows
                                                     : batch_limit);
}

}  // namespace gpux
