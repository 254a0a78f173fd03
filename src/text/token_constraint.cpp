#include "text/token_constraint.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gpux_text.h>

#include "base/format_message.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "text/kept_vocabularies.h"
#include "text/library_message.h"

namespace gpux::text {
namespace {

std::string_view name_of(OutputConstraint::Kind kind) noexcept {
  switch (kind) {
    case OutputConstraint::Kind::none:
      return "output constraint";
    case OutputConstraint::Kind::json_object:
      return "JSON object";
    case OutputConstraint::Kind::json_schema:
      return "JSON schema";
    case OutputConstraint::Kind::regex:
      return "regular expression";
    case OutputConstraint::Kind::grammar:
      return "grammar";
  }
  return {};
}

Subject subject_of(OutputConstraint::Kind kind) {
  return {.kind = Subject::Kind::constraint, .name = std::string(name_of(kind))};
}

std::pair<std::uint32_t, std::string_view> compiled_as(const OutputConstraint& constraint) {
  switch (constraint.kind) {
    case OutputConstraint::Kind::none:
      break;
    case OutputConstraint::Kind::json_object:
      return {GPUX_CONSTRAINT_JSON_SCHEMA, R"({"type":"object"})"};
    case OutputConstraint::Kind::json_schema:
      return {GPUX_CONSTRAINT_JSON_SCHEMA, constraint.text};
    case OutputConstraint::Kind::regex:
      return {GPUX_CONSTRAINT_REGEX, constraint.text};
    case OutputConstraint::Kind::grammar:
      return {GPUX_CONSTRAINT_GRAMMAR, constraint.text};
  }
  throw Error(ErrorCode::internal, "a constraint of the kind none");
}

// Whether a frame is all that there is.
bool is_frame_alone(const OutputConstraint& constraint) {
  return constraint.kind == OutputConstraint::Kind::grammar && constraint.text.empty() && !constraint.frame.empty();
}

}  // namespace

struct TokenVocabulary::State {
  std::size_t logits;
  GpuxVocabulary* vocabulary = nullptr;

  explicit State(std::size_t count) : logits(count) {}

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_vocabulary_close(vocabulary); }
};

TokenVocabulary::TokenVocabulary(const Tokenizer& tokenizer, std::size_t logits,
                                 std::span<const std::uint32_t> end_tokens) {
  std::vector<std::uint32_t> ends(end_tokens.begin(), end_tokens.end());
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  KeptVocabularies& kept = tokenizer.vocabularies();
  // A thread that needs the vocabulary that another one is making waits for it.
  const std::lock_guard lock(kept.mutex);
  std::shared_ptr<const void>& made = kept.made[{logits, ends}];
  if (!made) {
    auto state = std::make_shared<State>(logits);
    const Message message(
        gpux_vocabulary_open(tokenizer.library_tokenizer(), logits, ends.data(), ends.size(), &state->vocabulary));
    if (message) {
      kept.made.erase({logits, ends});
      throw Error(ErrorCode::invalid_input,
                  fmt::format("constrained output is not available with this model's tokenizer: {}", message.get()));
    }
    made = std::move(state);
  }
  state_ = std::static_pointer_cast<const State>(made);
}

std::size_t TokenVocabulary::logits() const noexcept {
  return state_->logits;
}

struct TokenConstraint::State {
  OutputConstraint::Kind kind;
  GpuxConstraint* constraint = nullptr;

  explicit State(OutputConstraint::Kind its_kind) : kind(its_kind) {}

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_constraint_close(constraint); }

  void check(char* text, ErrorCode code) const {
    const Message message(text);
    if (message) throw Error(code, format_message("{}: {}", subject_of(kind), message.get()));
  }
};

TokenConstraint::TokenConstraint(const TokenVocabulary& vocabulary, const OutputConstraint& constraint)
    : state_(std::make_unique<State>(constraint.kind)) {
  auto [kind, text] = compiled_as(constraint);
  if (constraint.kind == OutputConstraint::Kind::json_object && !constraint.text.empty()) {
    throw Error(ErrorCode::invalid_input, "a constraint of the kind json_object has a text; accepted: none");
  }
  try {
    require_utf8(text);
    require_utf8(constraint.frame);
  } catch (const Error& error) {
    throw error.within({subject_of(constraint.kind)});
  }
  if (is_frame_alone(constraint)) kind = 0;
  const std::string_view frame = constraint.frame;
  if (kind != 0 && !frame.empty()) {
    // What is wrong with the form is said of the form.
    State alone(constraint.kind);
    alone.check(
        gpux_constraint_open(vocabulary.state_->vocabulary, kind, {text.data(), text.size()}, {}, &alone.constraint),
        ErrorCode::invalid_input);
  }
  state_->check(gpux_constraint_open(vocabulary.state_->vocabulary, kind, {text.data(), text.size()},
                                     {frame.data(), frame.size()}, &state_->constraint),
                ErrorCode::invalid_input);
}

TokenConstraint::TokenConstraint(std::unique_ptr<State> state) : state_(std::move(state)) {}

TokenConstraint::~TokenConstraint() = default;
TokenConstraint::TokenConstraint(TokenConstraint&&) noexcept = default;
TokenConstraint& TokenConstraint::operator=(TokenConstraint&&) noexcept = default;

TokenConstraint TokenConstraint::clone() const {
  auto copy = std::make_unique<State>(state_->kind);
  copy->check(gpux_constraint_copy(state_->constraint, &copy->constraint), ErrorCode::internal);
  return TokenConstraint(std::move(copy));
}

void TokenConstraint::apply(std::span<float> logits) {
  state_->check(gpux_constraint_apply(state_->constraint, logits.data(), logits.size()), ErrorCode::invalid_input);
}

void TokenConstraint::accept(std::uint32_t token) {
  state_->check(gpux_constraint_accept(state_->constraint, token), ErrorCode::usage);
}

std::vector<std::uint32_t> TokenConstraint::forced(std::size_t most) {
  std::vector<std::uint32_t> tokens(most);
  state_->check(gpux_constraint_forced(state_->constraint, tokens.data(), &most), ErrorCode::internal);
  tokens.resize(most);
  return tokens;
}

bool TokenConstraint::has(std::uint32_t flag) const {
  std::uint32_t state = 0;
  state_->check(gpux_constraint_state(state_->constraint, &state), ErrorCode::invalid_input);
  return (state & flag) != 0;
}

bool TokenConstraint::may_end() const {
  return has(GPUX_CONSTRAINT_MAY_END);
}

bool TokenConstraint::is_finished() const {
  return has(GPUX_CONSTRAINT_FINISHED);
}

}  // namespace gpux::text
