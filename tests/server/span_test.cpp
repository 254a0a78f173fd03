// Spans of requests, and which of them are recorded.
#include "server/telemetry/span.h"

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/kept_spans.h"
#include "server/models/run_spans.h"
#include "server/telemetry/tracer.h"

namespace gpux::server {
namespace {

using std::chrono_literals::operator""ms;

TEST(TraceParent, IsReadAsTheStandardHasIt) {
  const auto context = read_span_context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(to_hexadecimal(context->trace), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(to_hexadecimal(context->span), "00f067aa0ba902b7");
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(context->traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  // A version to come may say more.
  EXPECT_TRUE(read_span_context("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes"));
}

TEST(TraceParent, IsNoneWhereItIsDamaged) {
  for (const char* text : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
       }) {
    EXPECT_FALSE(read_span_context(text)) << text;
  }
}

TEST(SpanIds, DifferAndAreNoZero) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(to_hexadecimal(new_span_id()));
  EXPECT_EQ(ids.size(), 1000);
  EXPECT_FALSE(ids.contains(std::string(16, '0')));
}

TEST(Sampler, DecidesByParentRatioOrAlways) {
  using Kind = Sampler::Kind;
  TraceId low{}, high{};
  low[8] = 0x3f;
  high[8] = 0x40;
  const SpanContext sampled{.trace = high, .span = {1}, .is_sampled = true}, other{.trace = low, .span = {1}};

  struct Case {
    Sampler sampler;
    TraceId trace;
    std::optional<SpanContext> parent;
    bool is_sampled;
  };

  const std::vector<Case> cases{
      {{}, low, {}, true},
      {{}, low, other, false},
      {{Kind::always_off}, low, {}, false},
      {{Kind::always_off}, high, sampled, true},
      {{Kind::always_off, 1, false}, high, sampled, false},
      {{Kind::always_on, 1, false}, low, other, true},
      {{Kind::ratio, 0.25}, low, {}, true},
      {{Kind::ratio, 0.25}, high, {}, false},
      {{Kind::ratio, 1}, high, {}, true},
      {{Kind::ratio, 0}, low, {}, false},
      {{Kind::ratio, 0.25}, high, sampled, true},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(is_sampled(cases[i].sampler, cases[i].trace, cases[i].parent), cases[i].is_sampled) << i;
  }
}

TEST(RequestSpans, HaveThePhasesOfARequest) {
  KeptSpans kept;
  const auto arrived = RequestSpans::Clock::now() - 50ms;
  const auto spans = kept.tracer().begin("POST /x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", arrived);
  ASSERT_NE(spans, nullptr);
  spans->set("a", std::int64_t{1});
  spans->set("a", std::int64_t{2});
  spans->add("run", arrived + 10ms, arrived + 30ms, {{"rows", std::int64_t{3}}}, {{"token 1", arrived + 20ms}});
  spans->end(http_end(503));
  spans->end(http_end(200));
  spans->add("late", arrived, arrived);
  ASSERT_EQ(kept.requests().size(), 1);
  const std::vector<Span> made = kept.requests().front();
  ASSERT_EQ(made.size(), 2);
  const Span &request = made[0], &run = made[1];
  EXPECT_EQ(request.name, "POST /x");
  EXPECT_EQ(request.kind, SpanKind::server);
  EXPECT_EQ(to_hexadecimal(request.context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(to_hexadecimal(request.parent), "00f067aa0ba902b7");
  EXPECT_TRUE(request.is_error);
  EXPECT_GE(request.end - request.start, 50ms);
  ASSERT_EQ(request.attributes.size(), 3);
  EXPECT_EQ(std::get<std::int64_t>(request.attributes[0].value), 2);
  EXPECT_EQ(request.attributes[1].name, "http.response.status_code");
  EXPECT_EQ(request.attributes[2].name, "error.type");
  EXPECT_EQ(run.parent, request.context.span);
  EXPECT_EQ(run.context.trace, request.context.trace);
  EXPECT_EQ(run.end - run.start, 20ms);
  EXPECT_EQ(run.start - request.start, 10ms);
  ASSERT_EQ(run.events.size(), 1);
  EXPECT_EQ(run.events[0].time - run.start, 10ms);
}

TEST(RequestSpans, EndWhereTheClientLeaves) {
  KeptSpans kept;
  (void)kept.tracer().begin("POST /x", {}, RequestSpans::Clock::now());
  ASSERT_EQ(kept.requests().size(), 1);
  EXPECT_TRUE(kept.requests()[0][0].is_error);
  EXPECT_EQ(kept.requests()[0][0].error, "the client left");
  EXPECT_EQ(kept.requests()[0][0].parent, SpanId{});
}

TEST(RequestSpans, HavePartsOfPhases) {
  KeptSpans kept;
  const auto now = RequestSpans::Clock::now();
  const auto request = kept.tracer().begin("POST /x", {}, now);
  runtime::InferTimes times{.compute = 8ms, .worker = {}};
  add_run(request, times, now + 20ms);
  times.worker = {.process_id = 7, .time = 6ms};
  add_run(request, times, now + 40ms);
  request->end(http_end(200));
  const std::vector<Span> made = kept.requests().at(0);
  ASSERT_EQ(made.size(), 8);
  const Span &run = made[6], &worker = made[7];
  EXPECT_EQ(made[3].name, "run");
  EXPECT_EQ(run.parent, made[0].context.span);
  EXPECT_EQ(worker.name, "worker");
  EXPECT_EQ(worker.parent, run.context.span);
  EXPECT_EQ(worker.start - run.start, 1ms);
  EXPECT_EQ(run.end - worker.end, 1ms);
  EXPECT_EQ(std::get<std::int64_t>(attribute_of(worker, "process.pid")), 7);
}

TEST(RequestSpans, HaveTheStatusOfGrpc) {
  struct Case {
    int code;
    const char* name;
    bool has_failed;
  };

  for (const Case& one : {Case{0, "OK", false}, Case{3, "INVALID_ARGUMENT", false}, Case{1, "CANCELLED", false},
                          Case{4, "DEADLINE_EXCEEDED", true}, Case{13, "INTERNAL", true}, Case{14, "UNAVAILABLE", true},
                          Case{8, "RESOURCE_EXHAUSTED", false}}) {
    const RequestSpans::End end = grpc_end(one.code, one.name, "why");
    EXPECT_EQ(std::get<std::int64_t>(end.status.value), one.code);
    EXPECT_EQ(end.error_type, one.has_failed ? one.name : "") << one.name;
  }
}

TEST(RequestSpans, AreBounded) {
  KeptSpans kept;
  const auto spans = kept.tracer().begin("POST /x", {}, RequestSpans::Clock::now());
  for (std::size_t i = 0; i < 1000; ++i) spans->add("run", RequestSpans::Clock::now(), RequestSpans::Clock::now());
  spans->end(http_end(200));
  EXPECT_EQ(kept.requests()[0].size(), 1 + RequestSpans::max_phases);
  EXPECT_EQ(std::get<std::int64_t>(kept.requests()[0][0].attributes.back().value), 1000 - RequestSpans::max_phases);
}

TEST(Tracer, RecordsNothingWhereItIsNotSampled) {
  KeptSpans kept;
  const char* other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
  EXPECT_EQ(kept.tracer().begin("a", other, {}), nullptr);
  EXPECT_EQ(kept.tracer({.kind = Sampler::Kind::always_off}).begin("a", {}, {}), nullptr);
  // Without propagation it is a trace of its own.
  const auto own = kept.tracer({}, false).begin("a", other, {});
  ASSERT_NE(own, nullptr);
  EXPECT_NE(to_hexadecimal(own->context().trace), "4bf92f3577b34da6a3ce929d0e0e4736");
}

}  // namespace
}  // namespace gpux::server
