#include "kernels/team.h"

#include <thread>
#include <utility>

namespace gpux_cpu {
namespace {

constexpr std::uint64_t parts_mask = 0xFFFFFFFF;

// A step takes some microseconds, and sleeping would take as long. Yields if other threads may need the processor.
class SpinWait {
 public:
  void wait() noexcept {
    if (++spins_ > 1000) {
      std::this_thread::yield();
      return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void reset() noexcept { spins_ = 0; }

 private:
  unsigned spins_ = 0;
};

}  // namespace

void Team::run(std::size_t threads, const ParallelFor& parallel_for, const std::function<void(Team&)>& leader) {
  Team team(threads);
  parallel_for(threads, [&](std::size_t) {
    if (team.has_leader_.exchange(true)) {
      team.follow();
      return;
    }

    struct End {
      Team& team;

      explicit End(Team& of) noexcept : team(of) {}

      ~End() { team.is_finished_.store(true, std::memory_order_release); }

      End(const End&) = delete;
      End& operator=(const End&) = delete;
    };

    const End end(team);
    leader(team);
  });
}

void Team::run_parts(std::size_t parts, const std::function<void(std::size_t)>& work) {
  work_ = &work;
  completed_.store(0, std::memory_order_relaxed);
  unclaimed_.store(std::uint64_t{++step_} << 32 | parts, std::memory_order_release);
  while (const auto part = claim_part()) run_part(*part);
  SpinWait spin;
  while (completed_.load(std::memory_order_acquire) != parts) spin.wait();
  const std::lock_guard lock(failure_mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::optional<std::size_t> Team::claim_part() noexcept {
  std::uint64_t now = unclaimed_.load(std::memory_order_acquire);
  while ((now & parts_mask) != 0) {
    // While a claimed part is not completed, the leader starts no other step.
    if (unclaimed_.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return (now & parts_mask) - 1;
    }
  }
  return std::nullopt;
}

void Team::run_part(std::size_t part) noexcept {
  try {
    (*work_)(part);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  completed_.fetch_add(1, std::memory_order_release);
}

void Team::follow() noexcept {
  SpinWait spin;
  while (!is_finished_.load(std::memory_order_acquire)) {
    if (const auto part = claim_part()) {
      run_part(*part);
      spin.reset();
    } else {
      spin.wait();
    }
  }
}

}  // namespace gpux_cpu
