#include "server/protocols/run_items.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "server/jobs/infer_submission.h"
#include "server/jobs/run_job.h"
#include "server/protocols/answer_times.h"
#include "server/protocols/error_answers.h"

namespace gpux::server {
namespace {

// The items on their way, and the answer that is written of them.
class ItemsInProgress {
 public:
  explicit ItemsInProgress(ItemRuns runs) : runs_(std::move(runs)), text_(runs_.begin) {}

  [[nodiscard]] const ItemRuns& runs() const noexcept { return runs_; }

  PendingParts& pending() noexcept { return pending_; }

  void release_memory() { runs_.share.reset(); }

  // Writes the results in their order; one that comes early is kept. Returns the bytes that both take more.
  std::uint64_t take(std::size_t index, NamedValues&& outputs) {
    const std::lock_guard lock(mutex_);
    const std::size_t capacity = text_.capacity();
    const std::uint64_t kept = index == written_ ? 0 : bytes_of(outputs);
    early_.emplace(index, std::move(outputs));
    for (auto next = early_.begin(); next != early_.end() && next->first == written_; next = early_.erase(next)) {
      if (written_++ != 0) text_ += runs_.separator;
      runs_.append(text_, next->second);
    }
    return kept + text_.capacity() - capacity;
  }

  [[nodiscard]] std::string end() { return std::move(text_ += runs_.end); }

 private:
  ItemRuns runs_;
  PendingParts pending_;
  std::mutex mutex_;
  std::map<std::size_t, NamedValues> early_;
  std::size_t written_ = 0;
  std::string text_;
};

// Items that are prepared or queued at a time: what full batches need.
std::size_t items_in_flight(const ServedModel& model) {
  const Workers& workers = model.workers();
  const std::size_t runs = 2 * workers.sessions.size() * std::max(workers.replicas, 1U);
  return runs * (model.can_batch() ? static_cast<std::size_t>(model.options().max_batch_size) : 1);
}

// Queues an item, which may come to several runs of its own.
void queue_item(const std::shared_ptr<ItemsInProgress>& items, const std::shared_ptr<ServedModel>& model,
                const RequestWork& work, std::size_t index, runtime::InferRequest run, runtime::Completion done) {
  const auto here = items->runs().count == 1 ? runtime::Here::allowed : runtime::Here::no;
  items->pending().begin(index);
  items->pending().add(index, submit_infer(
                                  model, std::move(run), work,
                                  [items, index, done = std::move(done)](runtime::InferAnswer&& answer) {
                                    items->pending().end(index);
                                    done(std::move(answer));
                                  },
                                  here));
}

}  // namespace

void run_items(const RouteCall& call, const std::shared_ptr<ServedModel>& model, ItemRuns given) {
  const auto items = std::make_shared<ItemsInProgress>(std::move(given));
  RunJob::Work runs{.count = items->runs().count, .item = items->runs().item, .is_list = true};
  runs.run.arrived = call.request().arrived;
  runs.request = call.work;
  runs.max_in_flight = items_in_flight(*model);
  runs.prepare = [items](std::size_t index) { return items->runs().read(index); };
  runs.cost = [items](std::size_t index) { return items->runs().cost(index); };
  runs.queue = [items, model, work = call.work, arrived = runs.run.arrived](
                   std::size_t index, NamedValues&& inputs, bool is_admitted, runtime::Completion done) {
    runtime::InferRequest run{.inputs = std::move(inputs), .arrived = arrived, .is_admitted = is_admitted};
    queue_item(items, model, work, index, std::move(run), std::move(done));
  };
  runs.stop_others = [items] { items->pending().cancel(); };
  runs.take = [items](std::size_t index, NamedValues&& outputs) { return items->take(index, std::move(outputs)); };
  const auto answer = [call, items, arrived = runs.run.arrived](const std::optional<Error>& error,
                                                                const RunJob::Times& times) {
    try {
      // After an error others may still be read or taken: what they use is let go with them.
      if (error) throw Error(*error);
      items->release_memory();
      call.work.cancellation().check();
      http::Response response = http::Response::json(200, items->end());
      add_times(response, times.slowest, arrived);
      call.exchange->respond(std::move(response));
    } catch (...) {
      call.exchange->respond(error_response(current_error(), call.protocol));
    }
  };
  const auto job = std::make_shared<RunJob>(session_of(model), std::move(runs), answer);
  cancel_when_gone(*call.exchange, call.work, [job] { job->cancel(); });
  job->start();
}

}  // namespace gpux::server
