#include "server/requests/request_readers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/failure_of.h"
#include "base/start_thread.h"
#include "server/requests/request_work.h"

namespace gpux::server {
namespace {

Error stopped_error() {
  return {ErrorCode::interrupted, "the server is shutting down"};
}

// Does a unit. True where there is more to do.
bool do_unit(RequestReaders::Task& task) {
  try {
    task.cancellation.check();
    return task.unit();
  } catch (...) {
    call_guarded(task.failed, current_error());
    return false;
  }
}

}  // namespace

RequestReaders::~RequestReaders() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void RequestReaders::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw stopped_error();
    const std::size_t waiting = light_.size() + heavy_.size();
    if (!task.is_admitted && waiting >= options_.max_tasks) {
      throw Error(ErrorCode::resource_exhausted, "too many requests wait to be read: try later");
    }
    if (waiting + 1 > idle_ && threads_.size() < std::max(options_.threads, 1U)) start_thread();
    (is_heavy(task) ? heavy_ : light_).push_back(std::move(task));
  }
  changed_.notify_one();
}

void RequestReaders::start_thread() {
  in_progress_.reserve(threads_.size() + 1);
  try {
    threads_.push_back(gpux::start_thread([this] { work(); }));
  } catch (const Error&) {
    if (threads_.empty()) throw;  // else fewer do it, too
  }
}

void RequestReaders::stop() {
  std::deque<Task> dropped;
  std::vector<std::function<void(const Error&)>> to_tell;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const Task* task : in_progress_) {
      if (task->may_fail_beside_unit) to_tell.push_back(task->failed);
    }
    dropped.swap(light_);
    std::move(heavy_.begin(), heavy_.end(), std::back_inserter(dropped));
    heavy_.clear();
  }
  changed_.notify_all();
  for (const auto& failed : to_tell) call_guarded(failed, stopped_error());
  for (const Task& task : dropped) call_guarded(task.failed, stopped_error());
}

std::size_t RequestReaders::waiting() const {
  const std::lock_guard lock(mutex_);
  return light_.size() + heavy_.size();
}

bool RequestReaders::can_take() const noexcept {
  const std::size_t max_heavy = std::max(options_.threads, 2U) - 1;
  return !light_.empty() || (!heavy_.empty() && heavy_running_ < max_heavy);
}

RequestReaders::Task RequestReaders::take() {
  // Light tasks go first, but do not keep heavy ones waiting for ever where there is one thread.
  constexpr std::size_t max_light_in_a_row = 8;
  const std::size_t max_heavy = std::max(options_.threads, 2U) - 1;
  const bool may_be_heavy = !heavy_.empty() && heavy_running_ < max_heavy;
  const bool is_heavy = light_.empty() || (may_be_heavy && light_in_a_row_ >= max_light_in_a_row);
  light_in_a_row_ = is_heavy ? 0 : light_in_a_row_ + 1;
  std::deque<Task>& tasks = is_heavy ? heavy_ : light_;
  Task task = std::move(tasks.front());
  tasks.pop_front();
  if (is_heavy) ++heavy_running_;
  return task;
}

void RequestReaders::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [&] { return stopped_ || can_take(); });
    --idle_;
    if (stopped_) return;
    std::optional<Task> task = take();
    const bool was_heavy = is_heavy(*task);
    in_progress_.push_back(&*task);
    lock.unlock();
    const bool goes_on = do_unit(*task);
    lock.lock();
    std::erase(in_progress_, &*task);
    if (was_heavy && heavy_running_-- != 0) changed_.notify_one();
    std::optional<Error> failure;
    if (goes_on && stopped_) failure = stopped_error();
    if (goes_on && !stopped_) {
      failure = failure_of([&] { (was_heavy ? heavy_ : light_).push_back(std::move(*task)); });
      if (!failure) continue;
    }
    // What it holds may take a while to end, or call back.
    lock.unlock();
    if (failure) call_guarded(task->failed, *failure);
    task.reset();
    lock.lock();
  }
}

}  // namespace gpux::server
