#include "generation/continue_text.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "generation/sampling.h"
#include "generation/text_stream.h"
#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t chunk_tokens = 256;

std::uint64_t random_seed() {
  std::random_device device;
  constexpr unsigned half = 32;
  return (std::uint64_t{device()} << half) | device();
}

// Of the settings alone: end tokens of a model's files may lie outside.
void require_in_vocabulary(const GenerationSettings& settings, std::size_t vocabulary) {
  const auto require = [&](std::string_view name, std::uint32_t token) {
    if (token < vocabulary) return;
    throw Error(ErrorCode::usage,
                fmt::format("{} has token {}; accepted: 0 to {}, the model's vocabulary", name, token, vocabulary - 1));
  };
  for (const auto& [token, bias] : settings.logit_bias) require("logit_bias", token);
  for (const std::uint32_t token : settings.stop_tokens) require("stop_tokens", token);
}

// Sampling would choose some token of them without a word.
void require_numbers(std::span<const float> logits) {
  if (std::ranges::any_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  throw Error(ErrorCode::internal, "the model's logits are not numbers: no token can be chosen");
}

bool has(std::span<const std::uint32_t> tokens, std::uint32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

std::vector<std::size_t> prompt_chunks(std::size_t tokens, std::size_t chunk) {
  std::vector<std::size_t> sizes;
  while (tokens > 0) {
    std::size_t size = std::min(tokens, chunk);
    // Two tokens are left for the last run.
    if (tokens - size == 1 && size > 2) --size;
    sizes.push_back(size);
    tokens -= size;
  }
  return sizes;
}

Completion continue_text(const Decoder& decoder, const text::Tokenizer& tokenizer, const ModelFiles& files,
                         std::string_view prompt, const GenerationSettings& settings, const Generator::Sink& sink,
                         const std::stop_token& stop) {
  const Clock::time_point start = Clock::now();
  const text::Encoding encoding = tokenizer.encode(prompt);
  std::vector<std::uint32_t> tokens(encoding.ids().begin(), encoding.ids().end());
  Completion completion;
  const std::size_t prompt_tokens = completion.prompt_tokens = tokens.size();
  if (tokens.empty()) throw Error(ErrorCode::invalid_input, "the prompt has no tokens");
  if (prompt_tokens >= files.context_length) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the prompt has {} tokens; accepted: fewer than the {} of the model's context",
                            prompt_tokens, files.context_length));
  }
  const std::size_t room = files.context_length - prompt_tokens;
  if (settings.max_tokens > room) {
    throw Error(
        ErrorCode::usage,
        fmt::format("max_tokens is {}; accepted: up to {}, because the prompt has {} of the context's {} tokens",
                    settings.max_tokens, room, prompt_tokens, files.context_length));
  }
  const std::size_t limit = settings.max_tokens == 0 ? room : settings.max_tokens;
  const Sampling sampling = resolve(settings, files.defaults, settings.seed ? 0 : random_seed());
  std::vector<std::uint32_t> ends = settings.stop_tokens;
  if (!settings.ignores_end)
    ends.insert(ends.end(), files.defaults.end_tokens.begin(), files.defaults.end_tokens.end());

  TokenCache cache(decoder.signature());
  TextStream stream(tokenizer, settings.stop);
  const auto give = [&](const std::string& piece) {
    if (piece.empty()) return true;
    completion.text += piece;
    return !sink || sink(piece);
  };
  Tensor logits;
  std::span<const std::uint32_t> rest(tokens);
  for (const std::size_t size : prompt_chunks(prompt_tokens, chunk_tokens)) {
    logits = decoder.append(rest.first(size), cache, stop);
    rest = rest.subspan(size);
  }
  bool is_wanted = true;
  for (;;) {
    const Tensor floats = convert(logits, ElementType::float32);
    std::vector<float> values(floats.as<float>().begin(), floats.as<float>().end());
    require_numbers(values);
    const std::size_t generated = tokens.size() - prompt_tokens;
    if (generated == 0) require_in_vocabulary(settings, values.size());
    // Before min_tokens no end is chosen.
    if (generated < settings.min_tokens) {
      for (const std::uint32_t end : ends) {
        if (end < values.size()) values[end] = -std::numeric_limits<float>::infinity();
      }
    }
    const std::uint32_t token = choose_token(values, tokens, prompt_tokens, sampling);
    if (generated == 0) completion.time_to_first_token = Clock::now() - start;
    if (has(ends, token)) {
      completion.reason = FinishReason::stop;
      break;
    }
    tokens.push_back(token);
    is_wanted = give(stream.add(token, generated + 1 >= settings.min_tokens));
    if (!is_wanted || stream.is_stopped()) {
      completion.reason = is_wanted ? FinishReason::stop : FinishReason::cancelled;
      break;
    }
    if (generated + 1 == limit) {
      completion.reason = FinishReason::length;
      break;
    }
    logits = decoder.append(std::span(&token, 1), cache, stop);
  }
  if (is_wanted) give(stream.finish());
  completion.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prompt_tokens), tokens.end());
  completion.time = Clock::now() - start;
  return completion;
}

}  // namespace gpux::generation
