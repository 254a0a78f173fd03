#include "server/grpc/call_queue.h"

#include <utility>

#include "base/failure_of.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPUX_HAS_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif
#endif

namespace gpux::server {
namespace {

void take_over([[maybe_unused]] QueuedOperation& operation) noexcept {
#ifdef GPUX_HAS_THREAD_SANITIZER
  __tsan_acquire(&operation);
#endif
}

// So many events in a row: more to do than one thread can.
constexpr unsigned max_events_since_idle = 16;

}  // namespace

void hand_over([[maybe_unused]] QueuedOperation& operation) noexcept {
#ifdef GPUX_HAS_THREAD_SANITIZER
  __tsan_release(&operation);
#endif
}

Wire::Wire(CallQueue& queue) : queue_(queue) {
  const std::lock_guard lock(queue_.mutex_);
  ++queue_.wires_;
}

Wire::~Wire() {
  const std::lock_guard lock(queue_.mutex_);
  if (--queue_.wires_ == 0) queue_.without_wires_.notify_all();
}

void Wire::when_gone(std::function<void()> gone) {
  gone_ = std::move(gone);
  tell_gone();
}

void Wire::tell_gone() {
  if (is_half_told_.exchange(true)) gone_();
}

CallQueue::CallQueue(std::unique_ptr<::grpc::ServerCompletionQueue> queue, const Options& options)
    : queue_(std::move(queue)), options_(options), busy_poll_(options.busy_poll) {}

void CallQueue::end() {
  {
    // Of what was cancelled gRPC waits for the connections alone.
    std::unique_lock lock(mutex_);
    without_wires_.wait(lock, [&] { return wires_ == 0; });
    ended_ = true;
  }
  queue_->Shutdown();
  called_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CallQueue::serve(const CallSource& source) {
  Wire* const wire = std::make_unique<Wire>(*this).release();  // gRPC's, until it comes back
  wire->context.AsyncNotifyWhenDone(&wire->over_);
  wire->arrived_ = [this, &source, wire](bool ok) {
    std::unique_ptr<Wire> come(wire);
    if (!ok) return;
    // First, so that another may come meanwhile.
    serve(source);
    source.take(std::move(come));
  };
  hand_over(wire->over_);
  hand_over(wire->arrived_);
  source.request(*wire, *queue_, &wire->arrived_);
}

void CallQueue::start() {
  threads_.emplace_back([this] { run_leader(); });
  for (unsigned i = 1; i < options_.threads; ++i) threads_.emplace_back([this] { run_follower(); });
}

void CallQueue::run_leader() {
  unsigned events_since_idle = 0;
  for (;;) {
    Event event;
    poll(event);
    if (event.found == ::grpc::CompletionQueue::TIMEOUT) {
      events_since_idle = 0;
      if (const auto time = busy_poll_.time(); time.count() != 0) {
        busy_poll(event, time);
        busy_poll_.learn(event.found == ::grpc::CompletionQueue::GOT_EVENT);
      }
    } else {
      wake_follower(events_since_idle);
    }
    if (event.found == ::grpc::CompletionQueue::TIMEOUT) {
      event.found =
          queue_->Next(&event.tag, &event.ok) ? ::grpc::CompletionQueue::GOT_EVENT : ::grpc::CompletionQueue::SHUTDOWN;
    }
    if (event.found == ::grpc::CompletionQueue::SHUTDOWN) return;
    handle(event);
  }
}

void CallQueue::run_follower() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++asleep_;
    called_.wait(lock, [&] { return calls_ != 0 || ended_; });
    --asleep_;
    if (ended_) return;
    --calls_;
    lock.unlock();
    unsigned events_since_idle = 0;
    for (;;) {
      Event event;
      poll(event);
      if (event.found == ::grpc::CompletionQueue::TIMEOUT) {
        events_since_idle = 0;
        busy_poll(event, options_.busy_poll);
      } else {
        wake_follower(events_since_idle);
      }
      if (event.found != ::grpc::CompletionQueue::GOT_EVENT) break;
      handle(event);
    }
    lock.lock();
  }
}

void CallQueue::handle(const Event& event) {
  QueuedOperation& operation = *static_cast<QueuedOperation*>(event.tag);
  take_over(operation);
  // What it throws is about its call: the others go on.
  call_guarded([&] { operation(event.ok); });
}

void CallQueue::poll(Event& event) {
  event.found = queue_->AsyncNext(&event.tag, &event.ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
}

void CallQueue::busy_poll(Event& event, std::chrono::microseconds time) {
  const auto end = Clock::now() + time;
  while (event.found == ::grpc::CompletionQueue::TIMEOUT && Clock::now() < end) poll(event);
}

void CallQueue::wake_follower(unsigned& events_since_idle) {
  if (++events_since_idle < max_events_since_idle) return;
  events_since_idle = 0;
  if (asleep_.load(std::memory_order_relaxed) == 0) return;
  {
    const std::lock_guard lock(mutex_);
    if (calls_ != 0) return;
    ++calls_;
  }
  called_.notify_one();
}

}  // namespace gpux::server
