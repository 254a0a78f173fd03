#include "server/models/run_spans.h"

#include <algorithm>
#include <cstdint>

namespace gpux::server {

void add_run(const std::shared_ptr<RequestSpans>& spans, const runtime::InferTimes& times,
             RequestSpans::Clock::time_point end) {
  if (!spans) return;
  const auto computed = end - times.output, joined = computed - times.compute, taken = joined - times.input;
  spans->add("queue", taken - times.queue, taken);
  spans->add("batch", taken, joined);
  const SpanId run = spans->add("run", joined, computed,
                                {{"gpux.batch.rows", times.batch_rows},
                                 {"gpux.batch.requests", static_cast<std::int64_t>(times.batch_requests)}});
  if (times.worker.process_id == 0) return;
  // Clocks of two processes: the same one, but what the messages took on each way is not known.
  const auto in_worker = std::min<std::chrono::nanoseconds>(times.worker.time, times.compute);
  const auto begin = joined + (times.compute - in_worker) / 2;
  spans->add("worker", begin, begin + in_worker, {{"process.pid", std::int64_t{times.worker.process_id}}}, {}, run);
}

void add_phase(const std::shared_ptr<RequestSpans>& spans, const char* name, RequestSpans::Clock::time_point start) {
  if (spans) spans->add(name, start, RequestSpans::Clock::now());
}

}  // namespace gpux::server
