#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generation/engine.h"
#include "gpux/error.h"
#include "gpux/generator.h"
#include "server/models/served_model.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// Receives the tokens and ends of a job's answers. Called on a thread of the engine or the one that calls start(), one
/// call at a time.
class GenerationListener {
 public:
  GenerationListener() = default;
  virtual ~GenerationListener() = default;
  GenerationListener(const GenerationListener&) = delete;
  GenerationListener& operator=(const GenerationListener&) = delete;

  /// The scores of the prompt's tokens, where the settings ask for them. Called before the answer's first token.
  virtual void prompt(std::size_t choice, std::vector<TokenScore>&& scores) = 0;
  virtual void token(std::size_t choice, GeneratedToken&& token) = 0;
  /// An answer has ended. Called after its last token.
  virtual void ended(std::size_t choice, Completion&& completion) = 0;
  /// Once, and last: all answers have ended, or the first error ended them all.
  virtual void done(const std::optional<Error>& error) = 0;
};

/// The answers to the prompts of one request: each is a text of the model's engine. No more of them wait there than can
/// run at the same time: the next one is submitted when one ends. All members from any thread.
class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  struct Work {
    generation::EngineRequest asked;                  ///< of each answer, but for its prompt and what a job adds
    std::vector<std::vector<std::uint32_t>> prompts;  ///< tokens
    std::size_t answers = 1;                          ///< to each prompt: with the seeds seed, seed + 1, …
    RequestWork request;
  };

  GenerationJob(std::shared_ptr<ServedModel> model, Work work, std::shared_ptr<GenerationListener> listener);

  /// Submits the first answers, or none. Errors of Engine::submit() and Engine::constraint(), invalid_input where there
  /// are more answers than may ever wait; the listener is not called then.
  void start();

  /// Nobody waits any more: the answers end after the run under way.
  void cancel();

  /// Ends the request with that error at once, and its answers after the run under way.
  void fail(const Error& error);

 private:
  generation::EngineRequest request_for(std::size_t choice);
  void take(std::size_t choice, GeneratedToken&& token);
  void end(std::size_t choice, const std::optional<Error>& error, Completion&& completion);
  void tell(const std::function<void(GenerationListener&)>& event);
  void submit_first();
  void submit(std::size_t choice, generation::EngineRequest request);
  void submit_next();
  void cancel_all();
  void note_token(std::size_t choice, std::chrono::steady_clock::time_point now);
  void add_spans(std::size_t choice, const Completion& completion);

  std::shared_ptr<ServedModel> model_;
  Work work_;
  std::shared_ptr<generation::Engine> engine_;                     // of all answers
  std::shared_ptr<const text::TokenConstraint> constraint_;        // of all answers
  std::vector<std::chrono::steady_clock::time_point> last_token_;  // of each answer; the engine's thread

  /// Of each answer, where the request is traced: its tokens so far, and when the 1st, 2nd, 4th, … came.
  struct TracedTokens {
    std::uint64_t count = 0;
    std::vector<std::pair<std::string, std::chrono::steady_clock::time_point>> sampled;
  };

  std::vector<TracedTokens> traced_;
  std::chrono::steady_clock::time_point started_;

  std::mutex mutex_;
  std::shared_ptr<GenerationListener> listener_;  // null after done()
  std::size_t missing_, submitted_ = 0;
  bool is_cancelled_ = false;
  std::uint64_t number_ = 0;  // of begin_texts()
  std::vector<generation::Engine::Ticket> tickets_;
};

}  // namespace gpux::server
