#include "generation/sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/caught_error.h"
#include "base/format_message.h"
#include "text/embedded_tokens.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t random_seed() {
  std::random_device device;
  constexpr unsigned half = 32;
  return (std::uint64_t{device()} << half) | device();
}

void require_in_vocabulary(const Subject& name, std::uint32_t token, std::size_t vocabulary) {
  if (token < vocabulary) return;
  throw Error(ErrorCode::usage, format_message("{} has token {}; accepted: 0 to {}, the model's vocabulary", name,
                                               token, vocabulary - 1));
}

// Of the request alone: end tokens of a model's files may be outside.
void check_tokens(const EngineRequest& request, std::size_t vocabulary, const text::Tokenizer& tokenizer) {
  if (request.prompt.empty()) throw Error(ErrorCode::invalid_input, format_message("{} has no tokens", the_prompt()));
  text::require_embedded(request.prompt, vocabulary, tokenizer);
  for (const auto& [token, bias] : request.settings.logit_bias) {
    require_in_vocabulary(setting_named("logit_bias"), token, vocabulary);
  }
  for (const std::uint32_t token : request.settings.stop_tokens) {
    require_in_vocabulary(setting_named("stop_tokens"), token, vocabulary);
  }
}

std::size_t limit_of(const EngineRequest& request, std::size_t context_length) {
  const std::size_t prompt = request.prompt.size(), limit = request.settings.max_tokens;
  if (request.settings.prompt_only) {
    if (prompt <= context_length) return 0;
    throw Error(ErrorCode::invalid_input, format_message("{} has {} tokens; accepted: up to the {} of the context",
                                                         the_prompt("length"), prompt, context_length));
  }
  if (prompt >= context_length) {
    throw Error(ErrorCode::invalid_input, format_message("{} has {} tokens; accepted: fewer than the {} of the context",
                                                         the_prompt("length"), prompt, context_length));
  }
  const std::size_t left = context_length - prompt;
  if (limit > left) {
    throw Error(ErrorCode::usage,
                format_message("{} is {}; accepted: up to {}, because the prompt has {} of the context's {} tokens",
                               setting_named("max_tokens"), limit, left, prompt, context_length));
  }
  return limit == 0 ? left : limit;
}

bool has(std::span<const std::uint32_t> tokens, std::uint32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// Sampling would choose some token of them without a word.
void require_numbers(std::span<const float> logits, bool has_float16_caches) {
  if (std::ranges::any_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  constexpr const char* problem = "the model's logits are not numbers: no token can be chosen";
  if (!has_float16_caches) throw Error(ErrorCode::internal, problem);
  throw Error(ErrorCode::internal,
              format_message("{}. Its keys and values are in float16, which has numbers up to 65504: try {} model",
                             problem, setting_named("cache_precision")));
}

}  // namespace

text::TokenVocabulary SequenceContext::vocabulary(std::size_t logits) const {
  const std::lock_guard lock(mutex_);
  if (!vocabulary_) vocabulary_.emplace(tokenizer, logits, defaults.end_tokens);
  return *vocabulary_;
}

Sequence::Sequence(EngineRequest request, const SequenceContext& context, std::size_t vocabulary)
    : request_(std::move(request)),
      context_(&context),
      prompt_tokens_(request_.prompt.size()),
      limit_(0),
      ends_(request_.settings.stop_tokens),
      sampling_(resolve(request_.settings, context.defaults, request_.settings.seed ? 0 : random_seed())),
      bad_words_(request_.bad_words),
      stream_(context.tokenizer, request_.settings.stop, request_.settings.shows_special_tokens, request_.shown_tokens),
      vocabulary_(vocabulary) {
  // A text of a given form stands for itself.
  const bool has_form = request_.constraint || request_.settings.constraint.kind != OutputConstraint::Kind::none;
  if (!request_.is_answer && !has_form) stream_.continue_text(request_.prompt);
  check_tokens(request_, vocabulary, context.tokenizer);
  limit_ = limit_of(request_, context.context_length);
  tokens_.assign(request_.prompt.begin(), request_.prompt.begin() + static_cast<std::ptrdiff_t>(prefill_tokens()));
  if (is_scored()) {
    completion_.prompt_scores.push_back(
        {.chosen = scored(tokens_.front(), std::numeric_limits<float>::quiet_NaN()), .most_probable = {}});
  }
  if (!request_.settings.ignores_end) {
    ends_.insert(ends_.end(), context.defaults.end_tokens.begin(), context.defaults.end_tokens.end());
    ends_.insert(ends_.end(), request_.end_tokens.begin(), request_.end_tokens.end());
  }
  if (counts_tokens(sampling_)) counts_.add_prompt(request_.prompt);
  completion_.prompt_tokens = prompt_tokens_;
  if (!bad_words_ && !request_.settings.bad_words.empty()) {
    bad_words_ = std::make_shared<const BadWords>(context.tokenizer, request_.settings.bad_words);
  }
  const OutputConstraint& constraint = request_.settings.constraint;
  if (request_.constraint) {
    constraint_ = request_.constraint->clone();
  } else if (constraint.kind != OutputConstraint::Kind::none) {
    constraint_.emplace(context.vocabulary(vocabulary), constraint);
  }
}

void Sequence::start(std::size_t cached) {
  is_repeated_ = has_started_;
  if (has_started_) return;
  has_started_ = true;
  completion_.cached_tokens = cached;
  completion_.queue_time = Clock::now() - request_.arrived;
}

void Sequence::restore(std::size_t cached) noexcept {
  // What it computed itself, before it began anew, was not cached.
  if (!is_repeated_) completion_.cached_tokens = std::max(completion_.cached_tokens, cached);
}

Upcoming Sequence::upcoming(std::size_t most) {
  if (is_in_prompt()) {
    const auto rest = std::span<const std::uint32_t>(request_.prompt).subspan(tokens_.size());
    const auto known = rest.first(std::min(most, rest.size()));
    return {.tokens = {known.begin(), known.end()}, .certain = known.size()};
  }
  const std::size_t generated = tokens_.size() - prompt_tokens_;
  // The step gives one token anyway.
  most = std::min(most, limit_ - std::min(limit_, generated + 1));
  if (!context_->looks_up_prompts || request_.settings.prompt_only) return {};
  if (constraint_ && most != 0) {
    std::vector<std::uint32_t> forced = constraint_->forced(most);
    guesses_forced_ = !forced.empty();
    if (guesses_forced_) return {.tokens = std::move(forced)};
  }
  return {.tokens = lookup_.guess(tokens_, most)};
}

void Sequence::count_guesses(const GuessCounts& counts) noexcept {
  Acceptance& own = counts.are_drafted && draft_acceptance_ ? *draft_acceptance_
                    : guesses_forced_                       ? forced_acceptance_
                                                            : acceptance_;
  if (counts.offered != 0 && counts.tried == 0 && !counts.are_drafted) own.fade();
  if (counts.tried == 0) return;
  own.add(counts.right, !counts.is_wrong);
  completion_.draft_tokens += counts.tried;
  completion_.accepted_draft_tokens += counts.right;
}

// Whether the token with the highest logit is chosen, whatever it is.
bool Sequence::is_plain(std::size_t generated) const noexcept {
  const bool may_end = generated >= request_.settings.min_tokens;
  return sampling_.temperature == 0 && !has_penalties(sampling_) && !constraint_ && !bad_words_ &&
         (may_end || ends_.empty());
}

void Sequence::apply_rules(std::span<float> logits, std::optional<text::TokenConstraint>& constraint,
                           std::size_t generated) {
  if (constraint) constraint->apply(logits);
  if (bad_words_) bad_words_->apply(logits, std::span(tokens_).subspan(prompt_tokens_));
  if (generated >= request_.settings.min_tokens) return;
  for (const std::uint32_t end : ends_) {
    if (end < logits.size()) logits[end] = -std::numeric_limits<float>::infinity();
  }
}

std::uint32_t Sequence::choose(std::span<const float> logits) {
  const std::size_t generated = tokens_.size() - prompt_tokens_;
  if (is_plain(generated)) return greedy_token(logits);
  std::vector<float> changed(logits.begin(), logits.end());
  apply_rules(changed, constraint_, generated);
  return choose_token(changed, counts_, generated, sampling_);
}

const Acceptance& Sequence::draft_acceptance(const Acceptance& others) noexcept {
  if (!draft_acceptance_) draft_acceptance_ = others.of_next_text();
  return *draft_acceptance_;
}

std::size_t Sequence::left() const noexcept {
  const std::size_t generated = tokens_.size() - std::min(tokens_.size(), prompt_tokens_);
  return limit_ - std::min(limit_, generated);
}

void Sequence::begin_guesses() {
  guessed_ = 0;
  guessed_constraint_.reset();
  if (constraint_) guessed_constraint_.emplace(constraint_->clone());
}

std::optional<std::uint32_t> Sequence::guess(std::span<const float> logits) {
  const std::size_t generated = tokens_.size() - prompt_tokens_ + guessed_;
  logits = logits.first(std::min(logits.size(), vocabulary_));
  std::uint32_t token = 0;
  if (is_plain(generated)) {
    token = greedy_token(logits);
  } else {
    std::vector<float> changed(vocabulary_, -std::numeric_limits<float>::infinity());
    std::ranges::copy(logits, changed.begin());
    Sampling greedy = sampling_;
    greedy.temperature = 0;
    try {
      if (guessed_constraint_ && guessed_constraint_->is_finished()) return std::nullopt;
      apply_rules(changed, guessed_constraint_, generated);
      token = choose_token(changed, counts_, generated, greedy);
      if (guessed_constraint_ && !has(ends_, token)) guessed_constraint_->accept(token);
    } catch (const Error&) {  // what the form does not allow, or takes too long to find out
      return std::nullopt;
    }
  }
  if (has(ends_, token)) return std::nullopt;
  ++guessed_;
  return token;
}

TokenLogProbability Sequence::scored(std::uint32_t token, float log_probability) const {
  return {token, log_probability, token_bytes(context_->tokenizer.token(token).value_or(""), context_->spelling)};
}

TokenScore Sequence::score(std::span<const float> logits, std::uint32_t token, std::size_t most_probable) const {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) highest = std::max(highest, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  const double shift = highest + std::log(sum);
  const auto of_token = [&](std::uint32_t one) { return scored(one, static_cast<float>(logits[one] - shift)); };
  const auto before = std::ranges::count_if(logits, [&](float logit) { return logit > logits[token]; });
  TokenScore score{.chosen = of_token(token), .rank = static_cast<std::size_t>(before) + 1, .most_probable = {}};
  const std::size_t count = std::min(most_probable, logits.size());
  if (count == 0) return score;
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (std::size_t i = 0; i < count; ++i) score.most_probable.push_back(of_token(order[i]));
  return score;
}

void Sequence::take_from_prompt(std::span<const float> logits) {
  const std::uint32_t token = request_.prompt[tokens_.size()];
  completion_.prompt_scores.push_back(score(logits, token, request_.settings.prompt_log_probabilities.value_or(0)));
  tokens_.push_back(token);
  is_suspect_ = false;
}

std::optional<FinishReason> Sequence::advance(std::span<const float> logits) {
  require_numbers(logits, context_->has_float16_caches);
  const bool takes_from_prompt = is_in_prompt();
  if (takes_from_prompt) take_from_prompt(logits);
  if (is_in_prompt()) return std::nullopt;
  if (is_scored() && !std::exchange(has_told_prompt_, true) && request_.on_prompt) {
    request_.on_prompt(std::exchange(completion_.prompt_scores, {}));
  }
  if (request_.settings.prompt_only) return FinishReason::length;
  return takes_from_prompt ? std::nullopt : generate(logits);
}

std::optional<FinishReason> Sequence::generate(std::span<const float> logits) {
  const std::uint32_t token = choose(logits);
  const std::size_t generated = tokens_.size() - prompt_tokens_;
  if (generated == 0) completion_.time_to_first_token = Clock::now() - request_.arrived;
  if (has(ends_, token)) {
    completion_.end_token = token;
    if (has(request_.settings.stop_tokens, token)) completion_.stop_token = token;
    return FinishReason::stop;
  }
  if (constraint_) constraint_->accept(token);
  tokens_.push_back(token);
  is_suspect_ = false;
  if (counts_tokens(sampling_)) counts_.add_generated(token);
  GeneratedToken given{
      .token = token, .text = stream_.add(token, generated + 1 >= request_.settings.min_tokens), .score = {}};
  if (request_.settings.log_probabilities) {
    given.score = score(logits, token, request_.settings.top_log_probabilities);
    completion_.scores.push_back(*given.score);
  }
  completion_.text += given.text;
  if (request_.on_token) request_.on_token(std::move(given));
  completion_.stop_text = stream_.stop();
  if (stream_.is_stopped() || (constraint_ && constraint_->is_finished())) return FinishReason::stop;
  if (generated + 1 == limit_) return FinishReason::length;
  return std::nullopt;
}

void Sequence::end(FinishReason reason) noexcept {
  completion_.reason = reason;
  tell_end(std::nullopt);
}

void Sequence::fail(const Error& error) noexcept {
  completion_.reason = FinishReason::cancelled;
  tell_end(error);
}

void Sequence::tell_end(std::optional<Error> error) noexcept {
  try {
    completion_.held_text = stream_.finish();
    completion_.text += completion_.held_text;
    if (!is_in_prompt()) {
      completion_.tokens.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(prompt_tokens_), tokens_.end());
    }
  } catch (...) {
    if (!error) error = caught_error();
  }
  completion_.time = Clock::now() - request_.arrived;
  try {
    if (request_.on_end) request_.on_end(error, std::move(completion_));
  } catch (...) {  // nobody else can be told
  }
}

}  // namespace gpux::generation
