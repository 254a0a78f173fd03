#include "generation/quantization_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/memory_size.h"
#include "generation/engine.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

constexpr std::size_t max_parts = 16, max_part_tokens = 64;

double log_probability(std::span<const float> logits, std::size_t token) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(most));
  return static_cast<double>(logits[token]) - static_cast<double>(most) - std::log(sum);
}

std::uint32_t most_probable(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

// How many parts have a token behind the position.
std::size_t count_longer(const std::vector<std::vector<std::uint32_t>>& parts, std::size_t position) {
  return static_cast<std::size_t>(
      std::ranges::count_if(parts, [&](const auto& part) { return part.size() > position + 1; }));
}

}  // namespace

double TextPredictions::perplexity() const noexcept {
  if (most_probable.empty() || std::isnan(log_probability)) return std::numeric_limits<double>::infinity();
  return std::exp(-log_probability / static_cast<double>(most_probable.size()));
}

std::vector<std::vector<std::uint32_t>> measured_parts(const text::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::uint32_t> tokens = prompt_tokens(tokenizer, text, false);
  const std::vector<std::uint32_t> before = prompt_tokens(tokenizer, "");
  if (tokens.size() < 2) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("a text of {} tokens measures no weights; accepted: 2 or more", tokens.size()));
  }
  const std::size_t count = std::clamp<std::size_t>(tokens.size() / max_part_tokens, 1, max_parts);
  const std::size_t stride = tokens.size() / count;
  std::vector<std::vector<std::uint32_t>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::uint32_t> rest = std::span(tokens).subspan(i * stride);
    std::vector<std::uint32_t> part = before;
    const std::span<const std::uint32_t> own = rest.first(std::min(rest.size(), max_part_tokens));
    part.insert(part.end(), own.begin(), own.end());
    parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &std::vector<std::uint32_t>::size);
  return parts;
}

TextPredictions predict(Decoder& decoder, const std::vector<std::vector<std::uint32_t>>& parts) {
  TextPredictions predictions;
  if (parts.empty()) return predictions;
  const std::size_t longest = parts.front().size();
  decoder.reserve(longest + 1, std::vector<std::size_t>(parts.size() + 1, 0));
  static constexpr std::uint32_t any_token = 0;
  for (std::size_t position = 0; position + 1 < longest; ++position) {
    const std::size_t count = count_longer(parts, position);
    std::vector<Decoder::Row> rows;
    for (std::size_t i = 0; i < count; ++i) rows.push_back({position, std::span(parts[i]).subspan(position, 1)});
    if (decoder.needs_pairs() && decoder.can_batch() && count % 2 != 0) rows.push_back({0, {&any_token, 1}});
    const Tensor logits = decoder.run(0, rows);
    const auto vocabulary = static_cast<std::size_t>(logits.shape().back());
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const float> row = logits.as<float>().subspan(i * vocabulary, vocabulary);
      const std::uint32_t next = parts[i][position + 1];
      if (next >= vocabulary) {
        throw Error(ErrorCode::invalid_model,
                    fmt::format("the tokenizer has the token {}, and the model {} logits", next, vocabulary));
      }
      predictions.most_probable.push_back(most_probable(row));
      predictions.log_probability += log_probability(row, next);
    }
  }
  return predictions;
}

QuantizationAgreement compare(const TextPredictions& original, const TextPredictions& quantized) {
  QuantizationAgreement agreement{.positions = original.most_probable.size(),
                                  .perplexity = original.perplexity(),
                                  .quantized_perplexity = quantized.perplexity()};
  std::size_t equal = 0;
  for (std::size_t i = 0; i < std::min(agreement.positions, quantized.most_probable.size()); ++i) {
    equal += original.most_probable[i] == quantized.most_probable[i] ? 1U : 0U;
  }
  if (agreement.positions != 0) {
    agreement.same_token = static_cast<double>(equal) / static_cast<double>(agreement.positions);
  }
  return agreement;
}

void require_agreement(const QuantizationAgreement& agreement, double max_ratio) {
  if (std::isfinite(agreement.quantized_perplexity) && agreement.ratio() <= max_ratio) return;
  throw Error(ErrorCode::invalid_model,
              format_message("{} is refused: the perplexity of {} is {:.2f}, and {:.2f} with the weights of the file: "
                             "{:.3f} times; accepted: up to {} times ({})",
                             agreement.precision, agreement.what, agreement.quantized_perplexity, agreement.perplexity,
                             agreement.ratio(), max_ratio, setting_named("max_perplexity_ratio")));
}

Message quantization_advice(std::uint64_t weight_bytes, std::uint64_t memory_bytes) {
  // Two channels of DDR4 as one program reads them.
  constexpr double bytes_per_second = 20e9;
  constexpr double min_tokens_per_second = 3;
  // 4 bits and a 32nd of a float32 for each float32.
  const std::string quantized = format_bytes(weight_bytes / 32 * 5);
  if (weight_bytes > memory_bytes / 2) {
    return format_message("its weights are {}, more than half of the memory ({}); {} int4 makes about {} of them",
                          format_bytes(weight_bytes), format_bytes(memory_bytes), setting_named("quantize"), quantized);
  }
  const double tokens_per_second = bytes_per_second / static_cast<double>(std::max<std::uint64_t>(weight_bytes, 1));
  if (tokens_per_second >= min_tokens_per_second) return {};
  return format_message(
      "a processor reads its weights of {} for each token, at 20 GB/s {:.1f} tokens/s; {} int4 makes about {} "
      "of "
      "them",
      format_bytes(weight_bytes), tokens_per_second, setting_named("quantize"), quantized);
}

std::string report_of(const QuantizationAgreement& agreement) {
  constexpr double percent = 100;
  return fmt::format(
      "{}: perplexity {:.2f}, {:.2f} with the weights of the file ({:.3f} times); the same most probable "
      "token at {:.1f} % of {} positions of {}",
      agreement.precision, agreement.quantized_perplexity, agreement.perplexity, agreement.ratio(),
      percent * agreement.same_token, agreement.positions, agreement.what);
}

}  // namespace gpux::generation
