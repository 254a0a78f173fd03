#include "decoder/projection.h"

#include <algorithm>

namespace gpux_cpu::decoder {

void FormattedRows::resize(const RowFormat& format, std::size_t count) {
  format_ = format;
  count_ = count;
  switch (format.kind) {
    case RowFormat::Kind::fp32:
      stride_ = padded_inner(Precision::fp32, format.inner);
      floats_ = float_memory_.get(count * stride_);
      break;
    case RowFormat::Kind::bf16:
      stride_ = padded_inner(Precision::bf16, format.inner);
      bfloat16s_ = bfloat16_memory_.get(count * stride_);
      break;
    case RowFormat::Kind::blocks:
      blocks_ = (format.inner + format.block_size - 1) / format.block_size;
      stride_ = blocks_ * format.block_size;
      bytes_ = byte_memory_.get(count * stride_);
      scales_ = scale_memory_.get(count * blocks_);
      sums_ = sum_memory_.get(count * blocks_);
      break;
  }
}

void FormattedRows::set(const KernelTables& kernels, std::size_t row, std::size_t first, std::size_t size,
                        const float* values) noexcept {
  const std::size_t to = row * stride_ + first;
  switch (format_.kind) {
    case RowFormat::Kind::fp32:
      std::copy_n(values, size, floats_ + to);
      return;
    case RowFormat::Kind::bf16:
      kernels.plain.to_bfloat16(values, size, bfloat16s_ + to);
      // Their weights are 0.
      if (first + size == format_.inner) std::fill(bfloat16s_ + to + size, bfloat16s_ + (row + 1) * stride_, 0);
      return;
    case RowFormat::Kind::blocks: {
      const std::size_t block = row * blocks_ + first / format_.block_size;
      kernels.blocks.quantize(values, size, format_.block_size, bytes_ + to, scales_ + block, sums_ + block);
      return;
    }
  }
}

BlockRows FormattedRows::blocks(std::size_t first, std::size_t count) const noexcept {
  return {.bytes = bytes_ + first * stride_,
          .scale = scales_ + first * blocks_,
          .negative_sum = sums_ + first * blocks_,
          .count = count,
          .blocks = blocks_,
          .block_size = format_.block_size};
}

Linear::Rows FormattedRows::plain(std::size_t first, std::size_t count) const noexcept {
  Linear::Rows rows{.count = count};
  if (format_.kind == RowFormat::Kind::fp32) {
    rows.floats = floats_ + first * stride_;
    rows.float_stride = stride_;
  } else {
    rows.bfloat16s = bfloat16s_ + first * stride_;
  }
  return rows;
}

void RowFormats::add(const RowFormat& format) noexcept {
  if (std::ranges::find(all(), format) == all().end()) formats_[count_++] = format;
}

void RowsInFormats::resize(const RowFormats& formats, std::size_t count) {
  formats_ = 0;
  for (const RowFormat& format : formats.all()) rows_[formats_++].resize(format, count);
}

void RowsInFormats::set(const KernelTables& kernels, std::size_t row, std::size_t size, const float* values) noexcept {
  for (std::size_t i = 0; i < formats_; ++i) rows_[i].set(kernels, row, 0, size, values);
}

const FormattedRows& RowsInFormats::in(const RowFormat& format) const noexcept {
  return *std::find_if(rows_.begin(), rows_.end() - 1,
                       [&](const FormattedRows& rows) { return rows.format() == format; });
}

RowFormat Projection::format() const noexcept {
  if (const auto* blocks = std::get_if<BlockLinear>(&linear_)) {
    return {RowFormat::Kind::blocks, blocks->inner(), blocks->block_size()};
  }
  if (const auto* small = std::get_if<SmallFloatLinear>(&linear_)) return {RowFormat::Kind::fp32, small->inner(), 1};
  const Linear& plain = std::get<Linear>(linear_);
  if (plain.precision() == Precision::bf16) return {RowFormat::Kind::bf16, plain.inner(), 2};
  return {RowFormat::Kind::fp32, plain.inner(), 1};
}

std::size_t Projection::columns() const noexcept {
  const auto* plain = std::get_if<Linear>(&linear_);
  if (plain != nullptr) return plain->unpadded_columns();
  const auto* blocks = std::get_if<BlockLinear>(&linear_);
  return blocks != nullptr ? blocks->columns() : std::get<SmallFloatLinear>(linear_).columns();
}

std::size_t Projection::bytes() const noexcept {
  return std::visit([](const auto& linear) { return linear.bytes(); }, linear_);
}

void Projection::multiply(const KernelTables& kernels, const FormattedRows& rows, std::size_t first_row,
                          std::size_t count, std::size_t first_panel, std::size_t last_panel, float* out,
                          std::size_t out_stride) const noexcept {
  if (const auto* blocks = std::get_if<BlockLinear>(&linear_)) {
    blocks->multiply(kernels.blocks, rows.blocks(first_row, count), first_panel, last_panel, out, out_stride);
  } else if (const auto* small = std::get_if<SmallFloatLinear>(&linear_)) {
    small->multiply(kernels.blocks, rows.plain(first_row, count), first_panel, last_panel, out, out_stride);
  } else {
    std::get<Linear>(linear_).multiply_part(kernels.plain, rows.plain(first_row, count), first_panel, last_panel, out,
                                            out_stride);
  }
}

void Projection::read_column(std::size_t column, float* out) const noexcept {
  std::visit([&](const auto& linear) { linear.read_column(column, out); }, linear_);
}

}  // namespace gpux_cpu::decoder
