#include "server/models/model_reaper.h"

namespace gpux::server {

ModelReaper::ModelReaper() : thread_([this] { work(); }) {}

ModelReaper::~ModelReaper() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<ServedModel> ModelReaper::adopt(const std::shared_ptr<ModelReaper>& reaper,
                                                std::unique_ptr<ServedModel> model) {
  {
    const std::lock_guard lock(reaper->mutex_);
    ++reaper->alive_;
    // So that take() need not allocate.
    reaper->dead_.reserve(reaper->alive_);
  }
  std::shared_ptr<ServedModel> adopted(model.release(), [reaper](ServedModel* dead) { reaper->take(dead); });
  const std::lock_guard lock(reaper->mutex_);
  std::erase_if(reaper->adopted_, [](const auto& one) { return one.expired(); });
  reaper->adopted_.push_back(adopted);
  return adopted;
}

std::vector<std::shared_ptr<ServedModel>> ModelReaper::alive() const {
  std::vector<std::shared_ptr<ServedModel>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& one : adopted_) {
    if (auto model = one.lock()) all.push_back(std::move(model));
  }
  return all;
}

bool ModelReaper::wait_for_all(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return alive_ == 0; });
}

void ModelReaper::take(ServedModel* dead) {
  {
    const std::lock_guard lock(mutex_);
    dead_.emplace_back(dead);
  }
  changed_.notify_all();
}

void ModelReaper::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ended_ || !dead_.empty(); });
    if (dead_.empty()) return;
    std::unique_ptr<ServedModel> dead = std::move(dead_.back());
    dead_.pop_back();
    lock.unlock();
    dead.reset();
    lock.lock();
    --alive_;
    changed_.notify_all();
  }
}

}  // namespace gpux::server
