#include "generation/settings.h"

#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/format_message.h"
#include "gpux/error.h"

namespace gpux {

std::string_view to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

namespace generation {
namespace {

struct Range {
  float low, high;
  bool excludes_low = false;
};

void check_value(const Message& name, const std::optional<float>& value, const Range& range) {
  if (!value) return;
  const bool is_in =
      std::isfinite(*value) && (range.excludes_low ? *value > range.low : *value >= range.low) && *value <= range.high;
  if (is_in) return;
  throw Error(ErrorCode::usage, format_message("{} is {}; accepted: {}{} to {}", name, *value,
                                               range.excludes_low ? "above " : "", range.low, range.high));
}

void check_texts(const Subject& name, std::span<const std::string> texts, std::size_t limit, std::size_t limit_bytes) {
  if (texts.size() > limit) {
    throw Error(ErrorCode::usage, format_message("{} has {} texts; accepted: up to {}", name, texts.size(), limit));
  }
  for (const std::string& text : texts) {
    if (!text.empty() && text.size() <= limit_bytes) continue;
    throw Error(ErrorCode::usage,
                format_message("{} has a text of {} bytes; accepted: 1 to {}", name, text.size(), limit_bytes));
  }
}

// Nothing is generated, for which these are.
void check_prompt_only(const GenerationSettings& settings) {
  const auto refuse = [](const Message& other) {
    throw Error(ErrorCode::usage,
                format_message("{} is set, and {}; accepted: one of them", setting_named("prompt_only"), other));
  };
  if (settings.max_tokens != 0) refuse({setting_named("max_tokens")});
  if (settings.min_tokens != 0) refuse({setting_named("min_tokens")});
  if (settings.constraint.kind != OutputConstraint::Kind::none) refuse({std::string("a constraint")});
}

}  // namespace

void check(const GenerationSettings& settings) {
  constexpr float highest_temperature = 100, highest_penalty = 2, highest_bias = 100, highest_repetition = 100;
  constexpr std::size_t limit_stops = 64, limit_stop_bytes = 1024;
  check_value({setting_named("temperature")}, settings.temperature, {0, highest_temperature});
  check_value({setting_named("top_p")}, settings.top_p, {0, 1, true});
  check_value({setting_named("min_p")}, settings.min_p, {0, 1});
  check_value({setting_named("typical_p")}, settings.typical_p, {0, 1, true});
  check_value({setting_named("repetition_penalty")}, settings.repetition_penalty, {0, highest_repetition, true});
  check_value({setting_named("presence_penalty")}, settings.presence_penalty, {-highest_penalty, highest_penalty});
  check_value({setting_named("frequency_penalty")}, settings.frequency_penalty, {-highest_penalty, highest_penalty});
  for (const auto& [token, bias] : settings.logit_bias) {
    check_value(format_message("{} of token {}", setting_named("logit_bias"), token), bias,
                {-highest_bias, highest_bias});
  }
  check_texts(setting_named("stop"), settings.stop, limit_stops, limit_stop_bytes);
  constexpr std::size_t limit_words = 256, limit_word_bytes = 256;
  check_texts(setting_named("bad_words"), settings.bad_words, limit_words, limit_word_bytes);
  constexpr std::size_t limit_salt_bytes = 1024;
  if (settings.cache_salt.size() > limit_salt_bytes) {
    throw Error(ErrorCode::usage, format_message("{} has {} bytes; accepted: up to {}", setting_named("cache_salt"),
                                                 settings.cache_salt.size(), limit_salt_bytes));
  }
  static constexpr std::uint32_t limit_scores = 20;
  const auto check_scores = [](const Subject& name, std::uint32_t count) {
    if (count <= limit_scores) return;
    throw Error(ErrorCode::usage, format_message("{} is {}; accepted: 0 to {}", name, count, limit_scores));
  };
  check_scores(setting_named("top_log_probabilities"), settings.top_log_probabilities);
  check_scores(setting_named("prompt_log_probabilities"), settings.prompt_log_probabilities.value_or(0));
  if (settings.prompt_only) check_prompt_only(settings);
  if (settings.constraint.kind != OutputConstraint::Kind::none && settings.ignores_end) {
    throw Error(ErrorCode::usage,
                format_message("{} is set, and a constraint; accepted: one of them", setting_named("ignores_end")));
  }
  if (settings.constraint.kind != OutputConstraint::Kind::none && !settings.bad_words.empty()) {
    throw Error(ErrorCode::usage,
                format_message("{} is set, and a constraint; accepted: one of them", setting_named("bad_words")));
  }
  if (settings.constraint.kind != OutputConstraint::Kind::none && settings.min_tokens != 0) {
    throw Error(ErrorCode::usage,
                format_message("{} is {}, and a constraint decides where the text ends; accepted: one of them",
                               setting_named("min_tokens"), settings.min_tokens));
  }
  if (settings.max_tokens != 0 && settings.min_tokens > settings.max_tokens) {
    throw Error(ErrorCode::usage,
                format_message("{} is {}; accepted: up to {}, {}", setting_named("min_tokens"), settings.min_tokens,
                               setting_named("max_tokens"), settings.max_tokens));
  }
}

// Below, logits over the temperature lose their order, and then become infinite. As vLLM.
constexpr float least_temperature = 1e-5F;

Sampling resolve(const GenerationSettings& settings, const ModelDefaults& defaults, std::uint64_t seed) {
  Sampling sampling = defaults.sampling;
  sampling.temperature = settings.temperature.value_or(sampling.temperature);
  if (sampling.temperature < least_temperature) sampling.temperature = 0;
  sampling.top_k = settings.top_k.value_or(sampling.top_k);
  sampling.top_p = settings.top_p.value_or(sampling.top_p);
  sampling.min_p = settings.min_p.value_or(sampling.min_p);
  sampling.typical_p = settings.typical_p.value_or(sampling.typical_p);
  sampling.repetition_penalty = settings.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.repetition_window = settings.repetition_window;
  sampling.presence_penalty = settings.presence_penalty;
  sampling.frequency_penalty = settings.frequency_penalty;
  sampling.logit_bias = settings.logit_bias;
  sampling.seed = settings.seed.value_or(seed);
  return sampling;
}

void sample_where_asked(GenerationSettings& settings, std::size_t answers, const ModelDefaults& defaults) {
  if (settings.temperature || defaults.sampling.temperature != 0) return;
  const bool has_candidates = settings.top_k.value_or(0) > 1 || settings.top_p.value_or(1) < 1;
  if (answers > 1 || has_candidates) settings.temperature = 1.F;
}

}  // namespace generation
}  // namespace gpux
