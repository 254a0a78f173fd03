#include "gpux/benchmark.h"

#include "base/machine.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "runtime/statistics.h"

namespace gpux {

BenchmarkResult Runtime::benchmark(const NamedValues& inputs, const BenchmarkOptions& options) const {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
    const auto start = Clock::now();
    const NamedValues outputs = infer(inputs);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  if (!options.seconds && options.runs == 0) throw Error(ErrorCode::usage, "a benchmark of 0 runs measures nothing");
  BenchmarkResult result;
  result.load_ms = load_time().count();
  result.first_run_ms = timed();
  for (std::uint64_t i = 1; i < options.warmup_runs; ++i) timed();
  result.warmup_runs = options.warmup_runs;

  std::vector<double> times_ms;
  if (!options.seconds) times_ms.reserve(options.runs);
  const auto begin = Clock::now();
  auto said = begin;
  for (;;) {
    times_ms.push_back(timed());
    const auto now = Clock::now();
    const double elapsed = std::chrono::duration<double>(now - begin).count();
    const double done = options.seconds ? elapsed / *options.seconds
                                        : static_cast<double>(times_ms.size()) / static_cast<double>(options.runs);
    if (options.progress && now - said > std::chrono::milliseconds(100)) {
      said = now;
      options.progress(done);
    }
    if (options.seconds ? elapsed >= *options.seconds : times_ms.size() >= options.runs) break;
  }
  if (options.progress) options.progress(1);
  runtime::summarize(std::move(times_ms), result);
  result.peak_memory_bytes = peak_resident_bytes();
  return result;
}

}  // namespace gpux
