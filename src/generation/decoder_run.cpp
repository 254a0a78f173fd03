#include "generation/decoder_run.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::generation {

NamedValues token_inputs(std::span<const DecoderRow> rows, const DecoderSignature& signature) {
  const std::size_t count = rows.size(), length = rows.front().tokens.size();
  std::size_t total = 0;
  for (const DecoderRow& row : rows) total = std::max(total, row.past + length);
  Tensor ids =
      Tensor::allocate(ElementType::int64, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)});
  Tensor positions = ids;
  Tensor mask =
      Tensor::allocate(ElementType::int64, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(total)});
  const std::span<std::int64_t> all_ids = ids.mutable_as<std::int64_t>(), all_ones = mask.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(rows[i].tokens, all_ids.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::ranges::fill(all_ones.subspan(i * total, rows[i].past + length), 1);
  }
  NamedValues inputs{{signature.names.input_ids, std::move(ids)}, {signature.names.attention_mask, std::move(mask)}};
  if (!signature.has_position_ids) return inputs;
  positions = Tensor::allocate(ElementType::int64, positions.shape());
  const std::span<std::int64_t> all_positions = positions.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<std::int64_t> of_row = all_positions.subspan(i * length, length);
    std::iota(of_row.begin(), of_row.end(), static_cast<std::int64_t>(rows[i].past));
  }
  inputs.emplace_back(signature.names.position_ids, std::move(positions));
  return inputs;
}

Tensor last_logits(const Tensor& logits) {
  const Shape& shape = logits.shape();
  constexpr std::size_t rank = 3;
  if (shape.size() != rank || shape[0] < 1 || shape[1] < 1 || shape[2] < 1) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("logits have the shape {}; accepted: [rows, positions, vocabulary]",
                            to_string(std::span<const std::int64_t>(shape))));
  }
  const Tensor floats = convert(logits, ElementType::float32);
  if (shape[1] == 1) return floats.reshaped({shape[0], shape[2]});
  const auto positions = static_cast<std::size_t>(shape[1]), vocabulary = static_cast<std::size_t>(shape[2]);
  Tensor last = Tensor::allocate(ElementType::float32, {shape[0], shape[2]});
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i) {
    std::ranges::copy(floats.as<float>().subspan((i * positions + positions - 1) * vocabulary, vocabulary),
                      last.mutable_as<float>().begin() + static_cast<std::ptrdiff_t>(i * vocabulary));
  }
  return last;
}

void require_last_logits(LogitRows wanted) {
  if (wanted == LogitRows::last) return;
  throw Error(ErrorCode::usage, "the logits of all tokens of a run are those of models that update caches in place");
}

Tensor all_logits(const Tensor& logits, std::size_t rows, std::size_t positions) {
  const Shape& shape = logits.shape();
  const auto count = static_cast<std::int64_t>(rows), length = static_cast<std::int64_t>(positions);
  if (shape.size() != 3 || shape[0] != count || shape[1] != length || shape[2] < 1) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("logits have the shape {}; accepted: [{}, {}, vocabulary], of each token of the run",
                            to_string(std::span<const std::int64_t>(shape)), count, length));
  }
  return convert(logits, ElementType::float32).reshaped({count * length, shape[2]});
}

Tensor joined_rows(std::span<const Tensor> parts) {
  std::vector<float> all;
  std::int64_t rows = 0;
  for (const Tensor& part : parts) {
    rows += part.shape().front();
    all.insert(all.end(), part.as<float>().begin(), part.as<float>().end());
  }
  return Tensor::of<float>({rows, parts.front().shape().back()}, all);
}

}  // namespace gpux::generation
