#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "gpux/error.h"
#include "server/served_model.h"

namespace gpux::server {

/// The texts of one request on their way through a model's queue. Each has a run of its own, and only a few of them
/// wait in the queue at a time: so a long list keeps neither another client's text waiting for all of it, nor the queue
/// full. All members from any thread.
class EmbedJob : public std::enable_shared_from_this<EmbedJob> {
 public:
  struct Options {
    embedding::EmbedOptions embed;
    bool truncate = true;  ///< false: a text that is too long is an error
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::chrono::steady_clock::time_point arrived;
  };

  struct Result {
    std::vector<std::vector<float>> vectors;  ///< in the order of the texts
    std::size_t tokens = 0;                   ///< of all texts, as they went into the model
    std::chrono::nanoseconds tokenizing{0};
    runtime::InferTimes slowest;
  };

  /// Called once, on a thread of the model's or the one that calls start(): with the error of the first text that
  /// failed, or the result of all.
  using Done = std::function<void(const std::optional<Error>& error, const Result& result)>;

  /// `model` has an encoder that has accepted the options.
  EmbedJob(std::shared_ptr<ServedModel> model, std::vector<std::string> texts, Options options, Done done);

  void start();

  /// Nobody waits any more.
  void cancel();

 private:
  void go_on();
  void run(std::size_t index);
  [[nodiscard]] embedding::PreparedText prepare(const std::string& text);
  void end(const std::optional<Error>& error);

  std::shared_ptr<ServedModel> model_;
  std::shared_ptr<const embedding::SentenceEncoder> encoder_;
  std::vector<std::string> texts_;
  Options options_;
  std::size_t most_in_flight_;

  std::mutex mutex_;
  Done done_;  // null after the end
  Result result_;
  std::size_t next_ = 0, in_flight_ = 0, missing_;
  std::vector<runtime::Scheduler::Ticket> tickets_;
};

}  // namespace gpux::server
