#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "base/caught_error.h"
#include "generation/engine.h"

namespace gpux::generation {

// What the engine's thread gives and the caller's takes.
struct PieceStream::Queue {
  std::mutex mutex;
  std::condition_variable came;
  std::deque<GeneratedPiece> pieces;
  GeneratedPiece next;  // tokens whose text is not certain
  bool has_ended = false, was_taken = false;
  Completion completion;
  std::optional<Error> error;

  void add(GeneratedToken token) {
    const std::lock_guard lock(mutex);
    next.tokens.push_back(token.token);
    if (token.score) next.scores.push_back(*std::move(token.score));
    if (!token.text.empty()) flush(std::move(token.text));
  }

  void end(const std::optional<Error>& failure, Completion whole) {
    const std::lock_guard lock(mutex);
    error = failure;
    try {
      if (!whole.held_text.empty() || !next.tokens.empty()) flush(whole.held_text);
    } catch (...) {  // the request gets the error in any case
      if (!error) error = caught_error();
    }
    completion = std::move(whole);
    has_ended = true;
    came.notify_one();
  }

 private:
  void flush(std::string text) {
    next.text = std::move(text);
    pieces.push_back(std::exchange(next, {}));
    came.notify_one();
  }
};

PieceStream::PieceStream(Engine& engine, EngineRequest request) : engine_(&engine), queue_(std::make_shared<Queue>()) {
  request.on_token = [queue = queue_](GeneratedToken token) { queue->add(std::move(token)); };
  request.on_end = [queue = queue_](const std::optional<Error>& error, Completion completion) {
    queue->end(error, std::move(completion));
  };
  ticket_ = engine.submit(std::move(request));
}

PieceStream::~PieceStream() {
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->has_ended) return;
  }
  cancel();
}

void PieceStream::cancel() {
  engine_->cancel(ticket_);
}

std::optional<GeneratedPiece> PieceStream::next() {
  std::unique_lock lock(queue_->mutex);
  queue_->came.wait(lock, [&] { return !queue_->pieces.empty() || queue_->has_ended; });
  if (!queue_->pieces.empty()) {
    GeneratedPiece piece = std::move(queue_->pieces.front());
    queue_->pieces.pop_front();
    return piece;
  }
  const std::optional<Error> error = queue_->error;
  if (error) throw Error(*error);
  queue_->was_taken = true;
  return std::nullopt;
}

const Completion* PieceStream::completion() const noexcept {
  return queue_->was_taken ? &queue_->completion : nullptr;
}

std::vector<std::uint32_t> prompt_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                                         bool adds_special_tokens) {
  text::EncodeOptions options;
  options.special_tokens = adds_special_tokens;
  const text::Encoding encoding = tokenizer.encode(prompt, options);
  return {encoding.ids().begin(), encoding.ids().end()};
}

Completion generate(Engine& engine, EngineRequest request, const Generator::Sink& sink) {
  PieceStream stream(engine, std::move(request));
  GeneratedPiece taken;
  while (std::optional<GeneratedPiece> piece = stream.next()) {
    taken.text += piece->text;
    std::ranges::move(piece->tokens, std::back_inserter(taken.tokens));
    std::ranges::move(piece->scores, std::back_inserter(taken.scores));
    if (piece->text.empty() || !sink || sink(piece->text)) continue;
    stream.cancel();
    try {
      while (stream.next()) {
      }
    } catch (const Error&) {  // of what nobody wants any more
    }
    // What the engine generated until it heard of it is left out.
    Completion completion = stream.completion() != nullptr ? *stream.completion() : Completion();
    completion.reason = FinishReason::cancelled;
    completion.text = std::move(taken.text);
    completion.tokens = std::move(taken.tokens);
    completion.scores = std::move(taken.scores);
    return completion;
  }
  return *stream.completion();
}

}  // namespace gpux::generation
