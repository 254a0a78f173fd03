#include "isolation/run_channels.h"

#include <span>
#include <utility>

#include "isolation/message_socket.h"

namespace gpux::isolation {

std::unique_ptr<RunChannel> RunChannels::take() {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_retired_) return nullptr;
    ++in_use_;
    if (!idle_.empty()) {
      std::unique_ptr<RunChannel> channel = std::move(idle_.back());
      idle_.pop_back();
      return channel;
    }
    number = ++opened_;
  }
  try {
    return open(number);
  } catch (...) {
    drop();
    throw;
  }
}

void RunChannels::give_back(std::unique_ptr<RunChannel> channel) {
  const std::lock_guard lock(mutex_);
  --in_use_;
  if (channel->is_served()) idle_.push_back(std::move(channel));
}

void RunChannels::drop() {
  const std::lock_guard lock(mutex_);
  --in_use_;
}

bool RunChannels::retire() {
  const std::lock_guard lock(mutex_);
  if (in_use_ == 0) is_retired_ = true;
  return is_retired_;
}

std::unique_ptr<RunChannel> RunChannels::open(std::uint64_t number) {
  auto [own, others] = make_socket_pair();
  const WorkerCommand command{.kind = WorkerCommand::Kind::open_channel, .channel = number};
  const int descriptor = others.get();
  if (!send_message(worker_.control(), command, std::span(&descriptor, 1))) return nullptr;
  return std::make_unique<RunChannel>(number, std::move(own), results_);
}

}  // namespace gpux::isolation
