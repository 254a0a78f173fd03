#include "server/embed_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpux::server {

using Clock = std::chrono::steady_clock;

EmbedJob::EmbedJob(std::shared_ptr<ServedModel> model, std::vector<std::string> texts, Options options, Done done)
    : model_(std::move(model)),
      encoder_(model_->encoder()),
      texts_(std::move(texts)),
      options_(std::move(options)),
      // One that runs and one that waits, for each of the model's workers.
      most_in_flight_(2 * model_->workers().sessions.size() * std::max(model_->workers().replicas, 1U)),
      done_(std::move(done)),
      missing_(texts_.size()),
      tickets_(texts_.size(), 0) {
  result_.vectors.resize(texts_.size());
}

void EmbedJob::start() {
  if (texts_.empty()) {
    end(std::nullopt);
    return;
  }
  for (std::size_t i = 0; i < most_in_flight_; ++i) go_on();
}

void EmbedJob::cancel() {
  end(Error(ErrorCode::interrupted, "the client has left"));
}

// Starts the next text, if there is one and it is its turn.
void EmbedJob::go_on() {
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!done_ || next_ == texts_.size() || in_flight_ == most_in_flight_) return;
    index = next_++;
    ++in_flight_;
  }
  try {
    run(index);
  } catch (const Error& error) {
    end(texts_.size() == 1 ? error : error.within(fmt::format("text {}", index)));
  } catch (const std::exception& error) {
    end(Error(ErrorCode::internal, error.what()));
  }
}

embedding::PreparedText EmbedJob::prepare(const std::string& text) {
  const auto begun = Clock::now();
  if (!options_.truncate && encoder_->model().max_tokens != 0) {
    const std::size_t tokens = encoder_->count_tokens(text, options_.embed);
    if (tokens > encoder_->model().max_tokens) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("the text has {} tokens; accepted: at most {}", tokens, encoder_->model().max_tokens));
    }
  }
  embedding::PreparedText prepared = encoder_->prepare(text, options_.embed);
  const std::lock_guard lock(mutex_);
  result_.tokenizing += Clock::now() - begun;
  result_.tokens += prepared.tokens;
  return prepared;
}

void EmbedJob::run(std::size_t index) {
  auto prepared = std::make_shared<embedding::PreparedText>();
  try {
    *prepared = prepare(texts_[index]);
  } catch (const Error& error) {
    model_->statistics().count(error, options_.arrived);
    throw;
  }
  NamedValues inputs = std::move(prepared->inputs);
  const auto ticket = model_->submit(
      {.inputs = std::move(inputs),
       .outputs = {encoder_->output()},
       .priority = 0,
       .deadline = options_.deadline,
       .arrived = options_.arrived},
      [self = shared_from_this(), index, prepared](runtime::InferAnswer&& answer) {
        try {
          if (answer.error) throw Error(*answer.error);
          std::vector<float> vector =
              self->encoder_->finish(*prepared, answer.outputs.front().second, self->options_.embed);
          bool is_last = false;
          {
            const std::lock_guard lock(self->mutex_);
            --self->in_flight_;
            self->result_.vectors[index] = std::move(vector);
            if (answer.times.compute >= self->result_.slowest.compute) self->result_.slowest = answer.times;
            is_last = --self->missing_ == 0;
          }
          if (is_last) {
            self->end(std::nullopt);
          } else {
            self->go_on();
          }
        } catch (const Error& error) {
          self->end(self->texts_.size() == 1 ? error : error.within(fmt::format("text {}", index)));
        }
      },
      // A list's texts run side by side.
      texts_.size() == 1 ? runtime::Here::allowed : runtime::Here::no);
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    tickets_[index] = ticket;
    is_late = !done_;
  }
  if (is_late && ticket != 0) model_->scheduler().cancel(ticket);
}

void EmbedJob::end(const std::optional<Error>& error) {
  Done done;
  std::vector<runtime::Scheduler::Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(done_, nullptr);
    tickets.swap(tickets_);
    tickets_.resize(texts_.size(), 0);
  }
  if (!done) return;
  if (error) {
    for (const auto ticket : tickets) {
      if (ticket != 0) model_->scheduler().cancel(ticket);
    }
  }
  done(error, result_);
}

}  // namespace gpux::server
