#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "server/http/busy_poll.h"

namespace gpux::server {

/// A tag that gRPC returns when an operation is complete; called with `ok` of
/// grpc::CompletionQueue::Next(). May destroy itself.
using QueuedOperation = std::function<void(bool ok)>;

/// Called with each operation before it goes to gRPC: what was done before is visible to the thread that gets it
/// back. gRPC guarantees this, but ThreadSanitizer cannot see it.
void hand_over(QueuedOperation& operation) noexcept;

class CallQueue;

/// gRPC's end of a call.
class Wire {
 public:
  explicit Wire(CallQueue& queue);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  ::grpc::GenericServerContext context;
  ::grpc::GenericServerAsyncReaderWriter stream{&context};

  /// `gone` is called once when the call is over for gRPC, answered or left: at once where it is already. To be called
  /// once, when the call has arrived.
  void when_gone(std::function<void()> gone);

 private:
  friend class CallQueue;

  void tell_gone();

  CallQueue& queue_;
  QueuedOperation arrived_;
  QueuedOperation over_ = [this](bool) { tell_gone(); };
  std::atomic<bool> is_half_told_ = false;  // one of the two has happened: when_gone(), and that it is over
  std::function<void()> gone_;
};

/// Source of calls: a method of a service.
struct CallSource {
  /// Requests the next call from gRPC, which fills `wire` and returns `tag` when it arrives.
  std::function<void(Wire& wire, ::grpc::ServerCompletionQueue& queue, void* tag)> request;
  /// Takes a call that has arrived.
  std::function<void(std::unique_ptr<Wire> wire)> take;
};

/// Runs the handlers of calls on threads of its own. gRPC's core lets one thread poll for all and wake the one that it
/// found an event for, which takes longer than most handlers. So one thread, the leader, handles all events while it is
/// idle between them, and wakes followers when it is not.
class CallQueue {
 public:
  struct Options {
    unsigned threads = 1;                    ///< at least 1
    std::chrono::microseconds busy_poll{0};  ///< as of GrpcServerOptions
  };

  CallQueue(std::unique_ptr<::grpc::ServerCompletionQueue> queue, const Options& options);
  /// Requires end().
  ~CallQueue() = default;
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Takes the source's calls, one after the other, until the server shuts down. Before start(), or on a thread of
  /// this; the source must outlive this.
  void serve(const CallSource& source);

  void start();

  /// Waits until all calls are over, and ends the threads. The server must have been shut down, so that no other comes
  /// and those in flight are cancelled, and must still be there.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  using Found = ::grpc::CompletionQueue::NextStatus;

  /// An event of the completion queue, as a thread found it.
  struct Event {
    void* tag = nullptr;
    bool ok = false;
    Found found = ::grpc::CompletionQueue::TIMEOUT;
  };

  friend class Wire;

  void run_leader();
  void run_follower();
  void handle(const Event& event);
  void poll(Event& event);
  void busy_poll(Event& event, std::chrono::microseconds time);
  void wake_follower(unsigned& events_since_idle);

  std::unique_ptr<::grpc::ServerCompletionQueue> queue_;
  const Options options_;
  BusyPoll busy_poll_;  // the leader's

  std::mutex mutex_;
  std::condition_variable called_;
  unsigned calls_ = 0;  // of wake_follower() that no follower has seen yet
  bool ended_ = false;
  std::size_t wires_ = 0;  // of calls, and of places for those to come
  std::condition_variable without_wires_;
  std::atomic<unsigned> asleep_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace gpux::server
