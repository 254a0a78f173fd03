#include "server/models/run_spans.h"

#include <cstdint>

namespace gpux::server {

void add_run(const std::shared_ptr<RequestSpans>& spans, const runtime::InferTimes& times,
             RequestSpans::Clock::time_point end) {
  if (!spans) return;
  const auto computed = end - times.output, joined = computed - times.compute, taken = joined - times.input;
  spans->add("queue", taken - times.queue, taken);
  spans->add("batch", taken, joined);
  spans->add("run", joined, computed,
             {{"gpux.batch.rows", times.batch_rows},
              {"gpux.batch.requests", static_cast<std::int64_t>(times.batch_requests)}});
}

void add_phase(const std::shared_ptr<RequestSpans>& spans, const char* name, RequestSpans::Clock::time_point start) {
  if (spans) spans->add(name, start, RequestSpans::Clock::now());
}

}  // namespace gpux::server
