#include "generation/draft_model.h"

#include <algorithm>
#include <utility>

#include "base/format_message.h"
#include "generation/draft_vocabulary.h"
#include "generation/run_ahead.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

// Of texts with fewer tokens: what they write is behind the tokens of their slots.
constexpr std::uint32_t any_token = 0;
constexpr std::size_t least_capacity = 256;
// Tokens that are not read yet, where a text has fewer of them than another one, and guesses.
constexpr std::size_t spare_positions = 2 * max_drafted;

}  // namespace

void require_runs_ahead(const Decoder& decoder, std::string_view role, const std::string& name) {
  if (decoder.runs_ahead()) return;
  const std::vector<std::string>& active = decoder.runtime().verdict().active;
  throw Error(ErrorCode::usage,
              format_message("{} is '{}', and {} runs on {}, which does not compute guessed tokens bit for bit as "
                             "others; accepted: {} decoder",
                             setting_named("draft"), name, role, active.empty() ? "no provider" : active.front(),
                             setting_named("provider")));
}

DraftModel::DraftModel(DraftSource source, const text::Tokenizer& model, std::size_t slots)
    : name_(std::move(source.name)),
      decoder_(std::move(source.runtime), slots),
      context_length_(source.context_length),
      sizes_(slots) {
  require_same_tokens(model, source.tokenizer, name_);
  const std::vector<std::uint32_t> tokens(2, any_token);
  reserve(tokens.size());
  const Decoder::Row row{0, tokens};
  vocabulary_ = static_cast<std::size_t>(decoder_.run(0, {&row, 1}).shape().back());
  decoder_.compare_rows(vocabulary_, context_length_);
  for (std::size_t slot = 0; slot < std::min<std::size_t>(slots, 3); ++slot) decoder_.release(slot, 0, tokens.size());
  require_runs_ahead(decoder_, "the draft model", name_);
}

void DraftModel::reserve(std::size_t tokens) {
  std::size_t capacity = least_capacity;
  while (capacity < tokens) capacity *= 2;
  decoder_.reserve(std::max(std::min(capacity, context_length_), tokens), sizes_);
}

bool DraftModel::can_continue(std::span<const std::uint32_t> tokens) const noexcept {
  return tokens.size() + spare_positions <= context_length_ &&
         std::ranges::all_of(tokens, [this](std::uint32_t token) { return token < vocabulary_; });
}

void DraftModel::read(std::size_t slot, std::span<const std::uint32_t> tokens) {
  reserve(sizes_[slot] + tokens.size());
  const Decoder::Row row{sizes_[slot], tokens};
  (void)decoder_.run(slot, {&row, 1});
  sizes_[slot] += tokens.size();
}

std::vector<std::optional<std::uint32_t>> DraftModel::run_first(std::span<const DraftedText> texts) {
  std::size_t length = 1;
  for (const DraftedText& text : texts) {
    if (text.most != 0) length = std::max(length, text.tokens.size() - sizes_[text.slot]);
  }
  std::vector<std::vector<std::uint32_t>> tokens;
  std::vector<Decoder::Row> rows;
  for (const DraftedText& text : texts) {
    const std::size_t past = sizes_[text.slot];
    std::vector<std::uint32_t> own(length, any_token);
    if (text.most != 0) std::ranges::copy(text.tokens.subspan(past), own.begin());
    tokens.push_back(std::move(own));
    rows.push_back({past, {}});
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].tokens = tokens[i];
  const bool is_last = length == 1 || texts.size() == 1;
  const Tensor logits = decoder_.run(texts.front().slot, rows, is_last ? LogitRows::last : LogitRows::all);
  const std::span<const float> all = logits.as<float>();
  std::vector<std::optional<std::uint32_t>> chosen(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].most == 0) continue;
    std::size_t& size = sizes_[texts[i].slot];
    const std::size_t last = texts[i].tokens.size() - size - 1;
    size = texts[i].tokens.size();
    chosen[i] = texts[i].choose(all.subspan((is_last ? i : i * length + last) * vocabulary_, vocabulary_));
  }
  return chosen;
}

std::vector<std::optional<std::uint32_t>> DraftModel::run_next(std::span<const DraftedText> texts,
                                                               std::span<const std::vector<std::uint32_t>> guesses,
                                                               const std::vector<bool>& has_ended) {
  std::vector<Decoder::Row> rows;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t guessed = guesses[i].size();
    const std::size_t behind = guessed == 0 ? 0 : guessed - 1;
    rows.push_back({sizes_[texts[i].slot] + behind, {guessed == 0 ? &any_token : &guesses[i].back(), 1}});
  }
  const Tensor logits = decoder_.run(texts.front().slot, rows);
  std::vector<std::optional<std::uint32_t>> chosen(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (has_ended[i]) continue;
    chosen[i] = texts[i].choose(logits.as<float>().subspan(i * vocabulary_, vocabulary_));
  }
  return chosen;
}

DraftModel::Guesses DraftModel::guess(std::span<const DraftedText> texts) {
  std::size_t longest = 0;
  for (const DraftedText& text : texts) {
    // It is written to behind what it has.
    if (text.most == 0 && sizes_[text.slot] + spare_positions > context_length_) cut(text.slot, 0);
    longest = std::max({longest, sizes_[text.slot], text.most == 0 ? 0 : text.tokens.size()});
  }
  reserve(longest + spare_positions);
  Guesses found{.tokens = std::vector<std::vector<std::uint32_t>>(texts.size()), .steps = 0};
  std::vector<bool> has_ended(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) has_ended[i] = texts[i].most == 0;
  while (std::ranges::find(has_ended, false) != has_ended.end()) {
    const auto chosen = found.steps == 0 ? run_first(texts) : run_next(texts, found.tokens, has_ended);
    ++found.steps;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (has_ended[i]) continue;
      const std::optional<std::uint32_t>& one = chosen[i];
      if (one) found.tokens[i].push_back(*one);
      has_ended[i] = !one || found.tokens[i].size() == texts[i].most;
    }
  }
  return found;
}

void DraftModel::copy(std::size_t from, std::size_t to, std::size_t tokens) {
  cut(to, 0);
  const std::size_t held = std::min(tokens, sizes_[from]);
  if (held != 0) decoder_.copy(from, to, held);
  sizes_[to] = held;
}

void DraftModel::exchange(std::size_t a, std::size_t b) noexcept {
  if (a == b) return;
  decoder_.exchange(a, sizes_[a], b, sizes_[b]);
  std::swap(sizes_[a], sizes_[b]);
}

// With what was guessed behind them.
void DraftModel::cut(std::size_t slot, std::size_t tokens) noexcept {
  if (sizes_[slot] <= tokens) return;
  decoder_.release(slot, tokens, sizes_[slot] + max_drafted);
  sizes_[slot] = tokens;
}

}  // namespace gpux::generation
