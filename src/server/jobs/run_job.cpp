#include "server/jobs/run_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/models/run_spans.h"
#include "server/requests/request_readers.h"

namespace gpux::server {
namespace {

// One that runs and one that waits, for each of the model's workers.
std::size_t two_for_each_worker(const Workers& workers) {
  return 2 * workers.sessions.size() * std::max(workers.replicas, 1U);
}

}  // namespace

RunJob::RunJob(std::shared_ptr<ServedSession> session, Work work, Done done)
    : session_(std::move(session)),
      work_(std::move(work)),
      max_in_flight_(work_.max_in_flight != 0 ? work_.max_in_flight : two_for_each_worker(session_->workers())),
      done_(std::move(done)),
      missing_(work_.count),
      is_admitted_(work_.run.is_admitted),
      tickets_(work_.count, 0),
      kept_(work_.request.memory) {}

void RunJob::start() {
  if (work_.count == 0) {
    end(std::nullopt);
    return;
  }
  // The others follow when it is queued: a request is refused before any of its runs, or not at all.
  go_on();
}

void RunJob::begin_others() {
  for (std::size_t i = 1; i < std::min(max_in_flight_, work_.count); ++i) go_on();
}

void RunJob::cancel() {
  work_.request.stop.request_stop();
  end(Error(ErrorCode::interrupted, "the client has left"));
}

Error RunJob::within(const Error& error, std::size_t index) const {
  return work_.count == 1 && !work_.is_list ? error : error.within(fmt::format("{} {}", work_.item, index));
}

void RunJob::fail(std::size_t index) {
  end(within(current_error(), index));
}

// Starts the next run, if there is one and it is its turn.
void RunJob::go_on() {
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!done_ || next_ == work_.count || in_flight_ == max_in_flight_) return;
    index = next_++;
    ++in_flight_;
  }
  try {
    const std::uint64_t cost = work_.cost ? work_.cost(index) : 0;
    RequestReaders* readers = work_.request.readers;
    if (readers == nullptr || cost <= work_here_bytes) {
      while (prepare_unit(index)) {
      }
      return;
    }
    readers->post(
        {.cancellation = work_.request.cancellation(),
         .cost = cost,
         .unit = [self = shared_from_this(), index] { return self->prepare_unit(index); },
         .failed = [self = shared_from_this(), index](const Error& error) { self->end(self->within(error, index)); },
         .may_fail_beside_unit = true,
         .is_admitted = true});
  } catch (...) {
    fail(index);
  }
}

// True where the run is not prepared yet. Ends the job itself where it fails.
bool RunJob::prepare_unit(std::size_t index) {
  try {
    std::optional<NamedValues> inputs;
    try {
      work_.request.cancellation().check();
      const std::uint64_t cost = work_.cost ? work_.cost(index) : 0;
      MemoryShare scratch(work_.request.memory);
      if (cost > work_here_bytes) grow_share(scratch, work_.request.memory, cost, "preparing the input");
      const auto start = RequestSpans::Clock::now();
      inputs = work_.prepare(index);
      add_phase(work_.request.spans, "prepare", start);
    } catch (...) {
      const Error error = current_error();
      session_->statistics()->count(error, work_.run.arrived);
      throw Error(error);
    }
    if (!inputs) return true;
    queue(index, std::move(*inputs));
  } catch (...) {
    fail(index);
  }
  return false;
}

void RunJob::queue(std::size_t index, NamedValues&& inputs) {
  runtime::Completion done = [self = shared_from_this(), index](runtime::InferAnswer&& answer) {
    self->take(index, std::move(answer));
  };
  bool is_admitted = false;
  {
    const std::lock_guard lock(mutex_);
    is_admitted = is_admitted_;
  }
  if (work_.queue) {
    work_.queue(index, std::move(inputs), is_admitted, std::move(done));
  } else {
    runtime::InferRequest run = work_.run;
    run.inputs = std::move(inputs);
    run.deadline = work_.request.deadline.time();
    run.is_admitted = is_admitted;
    const auto ticket = session_->submit(std::move(run), std::move(done),
                                         // Runs of a list go side by side.
                                         work_.count == 1 ? runtime::Here::allowed : runtime::Here::no);
    bool is_late = false;
    {
      const std::lock_guard lock(mutex_);
      tickets_[index] = ticket;
      is_late = !done_;
    }
    if (is_late && ticket != 0) session_->scheduler().cancel(ticket);
  }
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_admitted_ = true;
    is_first = !std::exchange(has_begun_, true);
  }
  if (is_first) begin_others();
}

void RunJob::take(std::size_t index, runtime::InferAnswer&& answer) {
  try {
    if (answer.error) throw Error(*answer.error);
    add_run(work_.request.spans, answer.times, RequestSpans::Clock::now());
    const std::uint64_t bytes = work_.take(index, std::move(answer.outputs));
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      grow_share(kept_, work_.request.memory, bytes, "the answer");
      --in_flight_;
      if (answer.times.compute >= times_.slowest.compute) times_.slowest = answer.times;
      times_.queue += answer.times.queue;
      times_.compute += answer.times.compute;
      is_last = --missing_ == 0;
    }
    if (is_last) {
      end(std::nullopt);
    } else {
      go_on();
    }
  } catch (...) {
    fail(index);
  }
}

void RunJob::end(const std::optional<Error>& error) {
  Done done;
  std::vector<runtime::Scheduler::Ticket> tickets;
  Times times;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
    tickets.swap(tickets_);
    tickets_.resize(work_.count, 0);
    times = times_;
  }
  if (!done) return;
  if (error) {
    for (const auto ticket : tickets) {
      if (ticket != 0) session_->scheduler().cancel(ticket);
    }
    if (work_.stop_others) work_.stop_others();
  }
  {
    // The answer that is made of it takes memory of its own.
    const std::lock_guard lock(mutex_);
    kept_.release();
  }
  done(error, times);
}

}  // namespace gpux::server
