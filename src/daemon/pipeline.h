#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "daemon/sink.h"
#include "daemon/state_file.h"
#include "gpux/error.h"
#include "vector_store/collection.h"

namespace gpux::daemon {

/// The model that makes vectors now.
struct OpenModel {
  /// The text's vector; from any thread. Errors as of embedding::TextEmbedder::embed().
  std::function<std::vector<float>(const std::string& text)> embed;
  /// Makes the vector of an event instead, without a model; empty: embed() does.
  std::function<std::vector<float>(const Event& event)> features;
  std::string name, digest;
  std::string level;                    ///< empty where a model was named
  std::string provider;                 ///< that holds its nodes
  vector_store::CollectionFacts facts;  ///< of a collection of its vectors
  std::string verdict;                  ///< one line of text
  unsigned workers = 1;                 ///< texts at a time that keep the processors busy
};

/// How an event ended in the pipeline.
enum class Outcome : std::uint8_t {
  written,  ///< its vector is there
  known,    ///< it was there before
  refused,  ///< it was set aside
  again,    ///< it is not whole yet: come again with it
};

/// An event as it came.
struct WaitingEvent {
  std::string source, position;
  std::string content;
  std::string refusal;    ///< not empty: it is set aside for this reason, unread
  bool may_grow = false;  ///< what is no JSON may be one that is being written still
  std::chrono::system_clock::time_point taken = std::chrono::system_clock::now();
  /// Called once, on a thread of the pipeline, when that is safe on disk; never where the pipeline is stopped before.
  std::function<void(Outcome)> ended;
};

/// Counters of a pipeline since its start.
struct PipelineCounts {
  std::uint64_t embedded = 0, known = 0, refused = 0;
  std::uint64_t waiting = 0;                           ///< now, in memory
  std::string sink_problem;                            ///< why nothing can be written now; empty: it can
  std::string model_problem;                           ///< why an event cannot be embedded now; empty: it can
  double embed_ms_mean = 0;                            ///< mean time of the latest runs, in milliseconds
  std::chrono::system_clock::time_point last_written;  ///< its epoch: nothing yet
};

/// How many attempts to embed an event must fail with this error before the event is set aside, provided that the model
/// embeds other texts; 1: without asking.
int attempts_before_blame(ErrorCode code) noexcept;

/// Makes vectors of events, several side by side, and puts them into a sink, some at a time. What fails is tried again
/// as long as it may be the disk's or the device's fault; what is an event's own fault is set aside. An event is to
/// blame where the model keeps failing on it and meanwhile embeds other events, or a short text of the pipeline's own.
class EventPipeline {
 public:
  /// The sink has to live as long. `workers` 0: as many as the model says. What fails is tried again after
  /// `first_pause`, then after twice as long, and so on.
  EventPipeline(EventSink& sink, EventLimits limits, std::shared_ptr<const OpenModel> model, unsigned workers,
                std::chrono::milliseconds first_pause = std::chrono::milliseconds(500));
  /// Calls stop().
  ~EventPipeline();
  EventPipeline(const EventPipeline&) = delete;
  EventPipeline& operator=(const EventPipeline&) = delete;

  enum class Put : std::uint8_t { taken, full, stopped };

  /// Waits for room, for a while. The event is moved from where it is taken; `stopped` is this or `stop`. From any
  /// thread.
  Put put(WaitingEvent& event, const std::stop_token& stop, std::chrono::milliseconds time);

  /// Replaces the model: events that are embedded from now on use this one.
  void use(std::shared_ptr<const OpenModel> model);
  [[nodiscard]] std::shared_ptr<const OpenModel> model() const;

  /// Stops the pipeline: writes the events that are being embedded and drops those that wait. From one thread.
  void stop();

  [[nodiscard]] PipelineCounts counts() const;

 private:
  struct Finished {
    EmbeddedEvent embedded;
    RefusedEvent refused;
    bool is_refused = false;
    std::function<void(Outcome)> ended;
  };

  void work();
  void handle(WaitingEvent event);
  void refuse(const WaitingEvent& event, const std::string& reason);
  [[nodiscard]] bool embeds_others(const OpenModel& model, std::uint64_t successes_before) const;
  /// False where it was stopped in between.
  bool embed(const WaitingEvent& waiting, EmbeddedEvent& event);
  void finish(Finished finished);
  void write_all();
  void write(std::vector<Finished> batch);
  /// Sleeps; false where it was stopped in between.
  bool pause(std::chrono::milliseconds time);

  EventSink& sink_;
  const EventLimits limits_;
  const std::chrono::milliseconds first_pause_;

  mutable std::mutex mutex_;
  std::condition_variable_any arrived_, room_, stopping_;
  std::deque<WaitingEvent> waiting_;
  std::size_t queue_limit_;
  bool stopped_ = false;
  std::shared_ptr<const OpenModel> model_;
  std::uint64_t known_ = 0, embedded_ = 0, refused_ = 0, in_work_ = 0;
  std::string sink_problem_, model_problem_;
  double embed_ms_ = 0;
  std::chrono::system_clock::time_point last_written_;
  std::atomic<std::uint64_t> successes_ = 0;  // of runs

  std::mutex finished_mutex_;
  std::condition_variable finished_arrived_, finished_room_;
  std::vector<Finished> finished_;
  bool no_more_ = false;  // workers have ended

  std::vector<std::thread> workers_;
  std::thread writer_;
};

}  // namespace gpux::daemon
