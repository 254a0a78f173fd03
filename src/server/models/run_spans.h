#pragma once

#include <chrono>
#include <memory>

#include "runtime/scheduling/scheduler.h"
#include "server/telemetry/request_spans.h"

/// What a request's spans have of its runs. Nothing where `spans` is null.
namespace gpux::server {

/// "queue", "batch" and "run", which ended at `end` but for the output. "run" has gpux.batch.rows and
/// gpux.batch.requests, of all requests that shared it. Of a worker process, "worker" is a part of it: the time that it
/// had the run, in the middle, and process.pid.
void add_run(const std::shared_ptr<RequestSpans>& spans, const runtime::InferTimes& times,
             RequestSpans::Clock::time_point end);

/// A phase from `start` until now.
void add_phase(const std::shared_ptr<RequestSpans>& spans, const char* name, RequestSpans::Clock::time_point start);

}  // namespace gpux::server
