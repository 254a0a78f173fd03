#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "generation/engine.h"

namespace gpux::generation {
namespace {

// What the engine's thread gives and the caller's takes.
struct Pieces {
  std::mutex mutex;
  std::condition_variable came;
  std::deque<std::string> texts;
  std::deque<std::size_t> tokens;  // of each text: tokens up to its end
  std::size_t count = 0;
  std::optional<Completion> completion;
  std::optional<Error> error;
};

}  // namespace

std::vector<std::uint32_t> prompt_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                                         bool adds_special_tokens) {
  text::EncodeOptions options;
  options.special_tokens = adds_special_tokens;
  const text::Encoding encoding = tokenizer.encode(prompt, options);
  return {encoding.ids().begin(), encoding.ids().end()};
}

Completion generate(Engine& engine, EngineRequest request, const Generator::Sink& sink) {
  const auto pieces = std::make_shared<Pieces>();
  request.on_token = [pieces](GeneratedToken token) {
    const std::lock_guard lock(pieces->mutex);
    ++pieces->count;
    if (token.text.empty()) return;
    pieces->texts.push_back(std::move(token.text));
    pieces->tokens.push_back(pieces->count);
    pieces->came.notify_one();
  };
  request.on_end = [pieces](const std::optional<Error>& error, Completion completion) {
    const std::lock_guard lock(pieces->mutex);
    if (!completion.held_text.empty()) {
      pieces->texts.push_back(completion.held_text);
      pieces->tokens.push_back(pieces->count);
    }
    pieces->error = error;
    pieces->completion = std::move(completion);
    pieces->came.notify_one();
  };
  const Engine::Ticket ticket = engine.submit(std::move(request));
  bool is_wanted = true;
  std::string taken_text;
  std::size_t taken_tokens = 0;
  std::unique_lock lock(pieces->mutex);
  for (;;) {
    pieces->came.wait(lock, [&] { return !pieces->texts.empty() || pieces->completion.has_value(); });
    while (!pieces->texts.empty()) {
      const std::string text = std::move(pieces->texts.front());
      pieces->texts.pop_front();
      const std::size_t tokens = pieces->tokens.front();
      pieces->tokens.pop_front();
      if (!sink || !is_wanted) continue;
      taken_text += text;
      taken_tokens = tokens;
      lock.unlock();
      try {
        is_wanted = sink(text);
      } catch (...) {
        engine.cancel(ticket);
        throw;
      }
      if (!is_wanted) engine.cancel(ticket);
      lock.lock();
    }
    if (!pieces->completion) continue;
    if (pieces->error && is_wanted) throw Error(*pieces->error);
    Completion completion = *std::move(pieces->completion);
    if (is_wanted) return completion;
    // What the engine generated until it heard of it is left out.
    completion.reason = FinishReason::cancelled;
    completion.text = taken_text;
    completion.tokens.resize(taken_tokens);
    if (!completion.scores.empty()) completion.scores.resize(taken_tokens);
    return completion;
  }
}

}  // namespace gpux::generation
