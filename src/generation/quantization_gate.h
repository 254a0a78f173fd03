#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generation/decoder.h"
#include "gpux/error.h"
#include "text/tokenizer.h"

/// Compares a decoder with quantized weights with the one that it was made of.
namespace gpux::generation {

/// Predictions of a decoder at each position of some texts.
struct TextPredictions {
  std::vector<std::uint32_t> most_probable;  ///< tokens, one for each position
  double log_probability = 0;                ///< sum of those of the tokens that follow

  /// exp(-mean of the log probabilities). Infinite where there are none, or one is NaN.
  [[nodiscard]] double perplexity() const noexcept;
};

/// Up to 16 parts of a text, of up to 64 tokens, evenly spread over it: so many run in seconds also on a CPU. Each
/// starts with the tokens that the tokenizer puts before a text. The longest come first. Error invalid_input: there are
/// not two tokens.
std::vector<std::vector<std::uint32_t>> measured_parts(const text::Tokenizer& tokenizer, std::string_view text);

/// Runs the parts next to each other, a token at a time, as generated tokens are. The decoder has a slot more than
/// there are parts. Errors of Decoder::run().
TextPredictions predict(Decoder& decoder, const std::vector<std::vector<std::uint32_t>>& parts);

/// How far quantized weights change what is predicted.
struct QuantizationAgreement {
  std::string precision;  ///< "int4"
  std::string what;       ///< the texts: "64 recorded texts"
  std::size_t positions = 0;
  double perplexity = 0;            ///< with the weights of the file
  double quantized_perplexity = 0;  ///< with quantized ones
  double same_token = 0;            ///< share of positions with the same most probable token

  [[nodiscard]] double ratio() const noexcept { return quantized_perplexity / perplexity; }
};

/// Compares predictions for the same parts. Pure.
QuantizationAgreement compare(const TextPredictions& original, const TextPredictions& quantized);

/// From what increase of the perplexity on quantized weights are refused, and reported as a warning.
constexpr double max_perplexity_ratio = 1.5, warned_perplexity_ratio = 1.1;

/// Error invalid_model where the perplexity is more than max_ratio times that of the original, or not finite.
void require_agreement(const QuantizationAgreement& agreement, double max_ratio);

/// A line of advice where a decoder's float weights are more than half of the memory, or where reading them once for
/// each token, as processors do, limits it to fewer than 3 tokens/s. Empty otherwise. Pure.
Message quantization_advice(std::uint64_t weight_bytes, std::uint64_t memory_bytes);

/// The agreement in one line.
std::string report_of(const QuantizationAgreement& agreement);

}  // namespace gpux::generation
