#include "daemon/pipeline.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t events_per_worker = 32;
constexpr std::size_t max_written_together = 256;
constexpr std::size_t kept_of_refused = 4096;
constexpr std::chrono::milliseconds longest_pause = 5s;
// Any model embeds it, where it embeds anything.
constexpr const char* harmless_text = "gpux";

}  // namespace

int attempts_before_blame(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_input:
      return 1;
    case ErrorCode::invalid_model:
      // As a vector that is not finite: the same text gives the same again, unless the device had a bad moment.
      return 2;
    default:
      // As memory that is short for now.
      return 5;
  }
}

EventPipeline::EventPipeline(EventSink& sink, EventLimits limits, std::shared_ptr<const OpenModel> model,
                             unsigned workers, std::chrono::milliseconds first_pause)
    : sink_(sink), limits_(limits), first_pause_(first_pause), model_(std::move(model)) {
  const unsigned count = workers != 0 ? workers : std::max(1U, model_->workers);
  queue_limit_ = events_per_worker * count;
  writer_ = std::thread([this] { write_all(); });
  for (unsigned i = 0; i < count; ++i) workers_.emplace_back([this] { work(); });
}

EventPipeline::~EventPipeline() {
  stop();
}

EventPipeline::Put EventPipeline::put(WaitingEvent& event, const std::stop_token& stop,
                                      std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  const bool ready = room_.wait_for(lock, stop, time, [&] { return stopped_ || waiting_.size() < queue_limit_; });
  if (stopped_ || stop.stop_requested()) return Put::stopped;
  if (!ready) return Put::full;
  waiting_.push_back(std::move(event));
  arrived_.notify_one();
  return Put::taken;
}

void EventPipeline::use(std::shared_ptr<const OpenModel> model) {
  const std::scoped_lock lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<const OpenModel> EventPipeline::model() const {
  const std::scoped_lock lock(mutex_);
  return model_;
}

void EventPipeline::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    waiting_.clear();
  }
  arrived_.notify_all();
  room_.notify_all();
  stopping_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  {
    const std::scoped_lock lock(finished_mutex_);
    no_more_ = true;
  }
  finished_arrived_.notify_all();
  if (writer_.joinable()) writer_.join();
}

PipelineCounts EventPipeline::counts() const {
  const std::scoped_lock lock(mutex_);
  return {.embedded = embedded_,
          .known = known_,
          .refused = refused_,
          .waiting = waiting_.size() + in_work_,
          .sink_problem = sink_problem_,
          .model_problem = model_problem_,
          .embed_ms_mean = embed_ms_,
          .last_written = last_written_};
}

bool EventPipeline::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopping_.wait_for(lock, time, [&] { return stopped_; });
}

void EventPipeline::work() {
  for (;;) {
    WaitingEvent event;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      event = std::move(waiting_.front());
      waiting_.pop_front();
      ++in_work_;
      room_.notify_one();
    }
    handle(std::move(event));
  }
}

void EventPipeline::handle(WaitingEvent waiting) {
  const auto ended_before = [&](Outcome outcome) {
    {
      const std::scoped_lock lock(mutex_);
      --in_work_;
      if (outcome == Outcome::known) ++known_;
    }
    waiting.ended(outcome);
  };
  if (!waiting.refusal.empty()) return refuse(waiting, waiting.refusal);
  EmbeddedEvent event;
  try {
    event.event = read_event(waiting.content, limits_);
  } catch (const std::exception& error) {
    if (waiting.may_grow) return ended_before(Outcome::again);
    return refuse(waiting, error.what());
  }
  event.hash = event_hash(waiting.source, waiting.position, event.event);
  event.source = waiting.source;
  event.position = waiting.position;
  event.taken = waiting.taken;
  if (sink_.has(event.hash)) return ended_before(Outcome::known);
  try {
    if (!embed(waiting, event)) return;
  } catch (const std::exception& error) {
    return refuse(waiting, error.what());
  }
  finish({.embedded = std::move(event), .refused = {}, .is_refused = false, .ended = std::move(waiting.ended)});
}

bool EventPipeline::embeds_others(const OpenModel& model, std::uint64_t successes_before) const {
  if (model.features || successes_ != successes_before) return true;
  try {
    (void)model.embed(harmless_text);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool EventPipeline::embed(const WaitingEvent& waiting, EmbeddedEvent& event) {
  const std::uint64_t successes = successes_;
  std::chrono::milliseconds wait = first_pause_;
  for (int attempt = 1;; ++attempt) {
    const std::shared_ptr<const OpenModel> model = this->model();
    const Clock::time_point start = Clock::now();
    std::string problem;
    ErrorCode code = ErrorCode::internal;
    try {
      event.vector = model->features ? model->features(event.event) : model->embed(event.event.text);
    } catch (const Error& error) {
      problem = error.message();
      code = error.code();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) {
      event.embed_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      event.embedded = std::chrono::system_clock::now();
      event.model = model->name;
      event.digest = model->digest;
      event.level = model->level;
      event.provider = model->provider;
      ++successes_;
      const std::scoped_lock lock(mutex_);
      embed_ms_ = embed_ms_ == 0 ? event.embed_ms : 0.95 * embed_ms_ + 0.05 * event.embed_ms;
      if (!model_problem_.empty()) log::info("events are embedded again");
      model_problem_.clear();
      return true;
    }
    const int enough = attempts_before_blame(code);
    if (attempt >= enough && (enough == 1 || embeds_others(*model, successes))) {
      const std::scoped_lock lock(mutex_);
      model_problem_.clear();
      throw Error(code, problem);
    }
    {
      const std::scoped_lock lock(mutex_);
      if (model_problem_.empty()) {
        log::warning("{} {} cannot be embedded, and is tried again: {}", waiting.source, waiting.position, problem);
      }
      model_problem_ = problem;
    }
    if (!pause(wait)) return false;
    wait = std::min(wait * 2, longest_pause);
  }
}

void EventPipeline::refuse(const WaitingEvent& event, const std::string& reason) {
  RefusedEvent refused{.hash = refusal_hash(event.source, event.position, event.content),
                       .source = event.source,
                       .position = event.position,
                       .reason = reason,
                       .content = event.content.substr(0, kept_of_refused),
                       .taken = event.taken};
  if (!sink_.has(refused.hash)) log::warning("{} {} is set aside: {}", event.source, event.position, reason);
  finish({.embedded = {}, .refused = std::move(refused), .is_refused = true, .ended = event.ended});
}

void EventPipeline::finish(Finished finished) {
  std::unique_lock lock(finished_mutex_);
  finished_room_.wait(lock, [&] { return finished_.size() < 2 * max_written_together || no_more_; });
  finished_.push_back(std::move(finished));
  finished_arrived_.notify_one();
}

void EventPipeline::write_all() {
  for (;;) {
    std::vector<Finished> batch;
    {
      std::unique_lock lock(finished_mutex_);
      finished_arrived_.wait(lock, [&] { return no_more_ || !finished_.empty(); });
      if (finished_.empty()) return;
      const auto count = static_cast<std::ptrdiff_t>(std::min(finished_.size(), max_written_together));
      batch.assign(std::make_move_iterator(finished_.begin()), std::make_move_iterator(finished_.begin() + count));
      finished_.erase(finished_.begin(), finished_.begin() + count);
      finished_room_.notify_all();
    }
    write(std::move(batch));
  }
}

void EventPipeline::write(std::vector<Finished> batch) {
  std::vector<EmbeddedEvent> embedded;
  std::vector<RefusedEvent> refused;
  for (Finished& one : batch) {
    if (one.is_refused) {
      refused.push_back(std::move(one.refused));
    } else {
      embedded.push_back(std::move(one.embedded));
    }
  }
  std::chrono::milliseconds wait = first_pause_;
  for (;;) {
    std::string problem;
    try {
      sink_.write(embedded, refused);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    {
      const std::scoped_lock lock(mutex_);
      if (problem.empty() != sink_problem_.empty()) {
        if (problem.empty()) {
          log::info("vectors are written again");
        } else {
          log::error("nothing can be written, which is tried again: {}", problem);
        }
      }
      sink_problem_ = problem;
      if (problem.empty()) {
        in_work_ -= batch.size();
        embedded_ += embedded.size();
        refused_ += refused.size();
        last_written_ = std::chrono::system_clock::now();
      }
    }
    if (problem.empty()) break;
    // Nothing is lost: what was not written has not ended, and comes again with the next start.
    if (!pause(wait)) return;
    wait = std::min(wait * 2, longest_pause);
  }
  for (Finished& one : batch) one.ended(one.is_refused ? Outcome::refused : Outcome::written);
}

}  // namespace gpux::daemon
