#include "server/run_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpux::server {

RunJob::RunJob(std::shared_ptr<ServedModel> model, Work work, Done done)
    : model_(std::move(model)),
      work_(std::move(work)),
      // One that runs and one that waits, for each of the model's workers.
      most_in_flight_(2 * model_->workers().sessions.size() * std::max(model_->workers().replicas, 1U)),
      done_(std::move(done)),
      missing_(work_.count),
      tickets_(work_.count, 0) {}

void RunJob::start() {
  if (work_.count == 0) {
    end(std::nullopt);
    return;
  }
  for (std::size_t i = 0; i < most_in_flight_; ++i) go_on();
}

void RunJob::cancel() {
  end(Error(ErrorCode::interrupted, "the client has left"));
}

Error RunJob::within(const Error& error, std::size_t index) const {
  return work_.count == 1 ? error : error.within(fmt::format("{} {}", work_.item, index));
}

// Starts the next run, if there is one and it is its turn.
void RunJob::go_on() {
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!done_ || next_ == work_.count || in_flight_ == most_in_flight_) return;
    index = next_++;
    ++in_flight_;
  }
  try {
    run(index);
  } catch (const Error& error) {
    end(within(error, index));
  } catch (const std::exception& error) {
    end(Error(ErrorCode::internal, error.what()));
  }
}

void RunJob::run(std::size_t index) {
  NamedValues inputs;
  try {
    inputs = work_.prepare(index);
  } catch (const Error& error) {
    model_->statistics().count(error, work_.arrived);
    throw;
  }
  const auto ticket = model_->submit(
      {.inputs = std::move(inputs),
       .outputs = work_.outputs,
       .priority = work_.priority,
       .deadline = work_.deadline,
       .arrived = work_.arrived},
      [self = shared_from_this(), index](runtime::InferAnswer&& answer) {
        try {
          if (answer.error) throw Error(*answer.error);
          self->work_.take(index, std::move(answer.outputs));
          bool is_last = false;
          {
            const std::lock_guard lock(self->mutex_);
            --self->in_flight_;
            if (answer.times.compute >= self->slowest_.compute) self->slowest_ = answer.times;
            is_last = --self->missing_ == 0;
          }
          if (is_last) {
            self->end(std::nullopt);
          } else {
            self->go_on();
          }
        } catch (const Error& error) {
          self->end(self->within(error, index));
        }
      },
      // Runs of a list go side by side.
      work_.count == 1 ? runtime::Here::allowed : runtime::Here::no);
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    tickets_[index] = ticket;
    is_late = !done_;
  }
  if (is_late && ticket != 0) model_->scheduler().cancel(ticket);
}

void RunJob::end(const std::optional<Error>& error) {
  Done done;
  std::vector<runtime::Scheduler::Ticket> tickets;
  runtime::InferTimes slowest;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
    tickets.swap(tickets_);
    tickets_.resize(work_.count, 0);
    slowest = slowest_;
  }
  if (!done) return;
  if (error) {
    for (const auto ticket : tickets) {
      if (ticket != 0) model_->scheduler().cancel(ticket);
    }
  }
  done(error, slowest);
}

}  // namespace gpux::server
