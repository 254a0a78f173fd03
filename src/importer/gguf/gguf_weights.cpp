#include "importer/gguf/gguf_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

// Read for themselves: they are part of the rotary positions (import_gguf.cpp).
constexpr std::array<std::string_view, 3> rotary_tensors{"rope_freqs.weight", "rope_factors_long.weight",
                                                         "rope_factors_short.weight"};

bool is_projection(std::string_view name, std::string_view projection) {
  return name.find(projection) != std::string_view::npos;
}

}  // namespace

std::int64_t interleaved_row(std::int64_t row, std::int64_t head_size) noexcept {
  const std::int64_t head = row / head_size, within = row % head_size, half = head_size / 2;
  return head * head_size + (within < half ? 2 * within : 2 * (within - half) + 1);
}

GgufWeights::GgufWeights(const GgufFile& file, const Family& family, std::int64_t heads, std::int64_t kv_heads,
                         StorageReport& report)
    : report_(report), file_(file), family_(family) {
  for (const auto& [stored_name, tensor] : file.tensors()) {
    if (std::ranges::find(rotary_tensors, stored_name) != rotary_tensors.end()) continue;
    const std::string name = name_of(family, stored_name);
    if (name.empty()) {
      throw Error(ErrorCode::invalid_model, fmt::format("the file has a tensor {}, which no {} model of gpux has",
                                                        onnx::quote(stored_name), family.architecture));
    }
    Entry entry{.stored_name = stored_name, .tensor = &tensor};
    if (family.interleaves_heads && is_projection(name, ".q_proj.")) entry.interleaved_heads = heads;
    if (family.interleaves_heads && is_projection(name, ".k_proj.")) entry.interleaved_heads = kv_heads;
    if (entry.interleaved_heads != 0) {
      const std::int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
      if (rows == 0 || rows % (2 * entry.interleaved_heads) != 0) {
        throw Error(ErrorCode::invalid_model, fmt::format("{} has {} rows, which do not make {} heads",
                                                          onnx::quote(stored_name), rows, entry.interleaved_heads));
      }
    }
    tensors_.emplace(name, std::move(entry));
  }
}

std::vector<std::string> GgufWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

std::uint64_t GgufWeights::float32_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : tensors_) {
    bytes += static_cast<std::uint64_t>(entry.tensor->rows() * entry.tensor->row_elements()) * sizeof(float);
  }
  return bytes;
}

const GgufWeights::Entry& GgufWeights::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} has no tensor {}", file_.name(), onnx::quote(stored_name_of(family_, name))));
  }
  return found->second;
}

const Shape& GgufWeights::shape(std::string_view name) const {
  return entry(name).tensor->shape;
}

void GgufWeights::require(std::string_view name, const Shape& shape) const {
  const Entry& found = entry(name);
  if (found.tensor->shape == shape) return;
  throw Error(ErrorCode::invalid_model,
              fmt::format("{}: {} has the sizes {}, and {} are expected", file_.name(), onnx::quote(found.stored_name),
                          to_string(std::span<const std::int64_t>(found.tensor->shape)),
                          to_string(std::span<const std::int64_t>(shape))));
}

GgufWeights::RowBytes GgufWeights::rows_of(std::string_view name, const Shape& shape, std::int64_t first_row,
                                           std::int64_t rows) const {
  require(name, shape);
  const Entry& found = entry(name);
  const std::int64_t all = shape.empty() ? 1 : shape.front();
  if (first_row < 0 || rows < 0 || rows > all || first_row > all - rows) {
    throw Error(ErrorCode::internal, fmt::format("rows {} to {} of {}", first_row, first_row + rows, all));
  }
  const std::span<const std::byte> stored = found.tensor->bytes;
  const std::size_t row_bytes = all == 0 ? 0 : stored.size() / static_cast<std::size_t>(all);
  const auto bytes_of_row = [&](std::int64_t row, std::int64_t count) {
    return stored.subspan(static_cast<std::size_t>(row) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
  };
  if (found.interleaved_heads == 0) return {.bytes = bytes_of_row(first_row, rows), .reordered = {}};
  RowBytes ordered;
  ordered.reordered.reserve(static_cast<std::size_t>(rows) * row_bytes);
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    const auto bytes = bytes_of_row(interleaved_row(row, all / found.interleaved_heads), 1);
    ordered.reordered.insert(ordered.reordered.end(), bytes.begin(), bytes.end());
  }
  ordered.bytes = ordered.reordered;
  return ordered;
}

std::vector<float> GgufWeights::floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                       std::int64_t rows) const {
  const RowBytes stored = rows_of(name, shape, first_row, rows);
  const TypeFacts& facts = facts_of(entry(name).tensor->type);
  std::vector<float> values(stored.bytes.size() / facts.block_bytes * facts.block_elements);
  read_elements(entry(name).tensor->type, stored.bytes, values);
  return values;
}

ElementType GgufWeights::floating_type(std::string_view name) const {
  switch (entry(name).tensor->type) {
    case TensorType::f16:
      return ElementType::float16;
    case TensorType::bf16:
      return ElementType::bfloat16;
    case TensorType::f64:
      return ElementType::float64;
    default:
      return ElementType::float32;
  }
}

std::vector<std::uint16_t> GgufWeights::small_floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                                     std::int64_t rows) const {
  if (bits_of(floating_type(name)) != 16) {
    throw Error(ErrorCode::internal, fmt::format("{} has no elements of 16 bits", onnx::quote(name)));
  }
  const RowBytes stored = rows_of(name, shape, first_row, rows);
  std::vector<std::uint16_t> values(stored.bytes.size() / sizeof(std::uint16_t));
  if (!values.empty()) std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
  return values;
}

std::optional<onnx::BlockFormat> GgufWeights::block_format(std::string_view name) const {
  const StoredTensor& tensor = *entry(name).tensor;
  return tensor.shape.size() == 2 ? block_format_of(tensor.type) : std::nullopt;
}

onnx::BlockMatrix GgufWeights::blocks(std::string_view name, const Shape& shape, std::int64_t first_row,
                                      std::int64_t rows) const {
  const Entry& found = entry(name);
  if (!block_format(name)) throw Error(ErrorCode::internal, fmt::format("{} has no blocks", onnx::quote(name)));
  const RowBytes stored = rows_of(name, shape, first_row, rows);
  auto made = stored_blocks(found.tensor->type, stored.bytes, rows, found.tensor->row_elements());
  if (!made) {
    throw Error(ErrorCode::invalid_model, fmt::format("{} has NaN or infinities", onnx::quote(found.stored_name)));
  }
  report_.add(found.tensor->type);
  return *std::move(made);
}

}  // namespace gpux::importer::gguf
