#include "kernels/team.h"

#include <thread>
#include <utility>

namespace gpux_encoder {
namespace {

constexpr std::uint64_t parts_mask = 0xFFFFFFFF;

// A step takes some microseconds: to sleep would take as long. Where the others have no processor, they are to get one.
class Patience {
 public:
  void wait() noexcept {
    if (++turns_ > 1000) {
      std::this_thread::yield();
      return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void renew() noexcept { turns_ = 0; }

 private:
  unsigned turns_ = 0;
};

}  // namespace

void Team::run(std::size_t threads, const ParallelFor& parallel_for, const std::function<void(Team&)>& lead) {
  Team team(threads);
  parallel_for(threads, [&](std::size_t) {
    if (team.is_led_.exchange(true)) {
      team.help();
      return;
    }

    struct End {
      Team& team;

      explicit End(Team& of) noexcept : team(of) {}

      ~End() { team.has_ended_.store(true, std::memory_order_release); }

      End(const End&) = delete;
      End& operator=(const End&) = delete;
    };

    const End end(team);
    lead(team);
  });
}

void Team::share(std::size_t parts, const std::function<void(std::size_t)>& work) {
  work_ = &work;
  done_.store(0, std::memory_order_relaxed);
  open_.store(std::uint64_t{++turn_} << 32 | parts, std::memory_order_release);
  while (const auto part = take()) do_part(*part);
  Patience patience;
  while (done_.load(std::memory_order_acquire) != parts) patience.wait();
  const std::lock_guard lock(failing_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::optional<std::size_t> Team::take() noexcept {
  std::uint64_t now = open_.load(std::memory_order_acquire);
  while ((now & parts_mask) != 0) {
    // While a part is taken and not done, the lead changes nothing.
    if (open_.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return (now & parts_mask) - 1;
    }
  }
  return std::nullopt;
}

void Team::do_part(std::size_t part) noexcept {
  try {
    (*work_)(part);
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
  }
  done_.fetch_add(1, std::memory_order_release);
}

void Team::help() noexcept {
  Patience patience;
  while (!has_ended_.load(std::memory_order_acquire)) {
    if (const auto part = take()) {
      do_part(*part);
      patience.renew();
    } else {
      patience.wait();
    }
  }
}

}  // namespace gpux_encoder
