#include "settings/serving_request.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

const Source flag{.kind = Source::Kind::flag, .name = "--workers", .place = {}};

TEST(ReadWorkers, ReadsWhatItWrites) {
  for (const char* text : {"1", "1024", "auto", "devices", "devices:6", "cores:2"}) {
    EXPECT_EQ(to_string(read_workers(text, flag)), text);
  }
}

TEST(ReadWorkers, RefusesOtherTexts) {
  for (const char* text : {"", "0", "1025", "-1", "two", "devices:", "devices:0", "cores:x", "auto:2"}) {
    try {
      (void)read_workers(text, flag);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(),
                "--workers is '" + std::string(text) + "'; accepted: 1 to 1024, auto, devices, devices:N, cores:N");
    }
  }
}

ServingRequest full(const std::string& name, unsigned number) {
  const Source source{.kind = Source::Kind::file, .name = name, .place = {}};
  ServingRequest request;
  request.max_batch_size = {number, source};
  request.max_batch_cost = {number, source};
  request.batching = {TextBatching::exact, source};
  request.padding = {{{"input", "0"}}, source};
  request.max_queue_delay = {std::chrono::milliseconds(number), source};
  request.timeout = {std::chrono::milliseconds(number), source};
  request.max_queue = {number, source};
  request.workers = {{.count = number}, source};
  request.max_workers = {number, source};
  request.runs_in_flight = {number, source};
  request.max_sequences = {number, source};
  request.context_length = {number, source};
  request.cache_bytes = {number, source};
  request.warm_up = {{{{"batch", 1}}}, source};
  request.stop_grace = {std::chrono::milliseconds(number), source};
  request.max_restart_delay = {std::chrono::milliseconds(number), source};
  return request;
}

std::vector<std::string> sources_of(const ServingRequest& request) {
  std::vector<std::string> names;
  const auto add = [&](const auto&... settings) {
    (names.push_back(settings ? settings->source.name : std::string("none")), ...);
  };
  add(request.max_batch_size, request.max_batch_cost, request.batching, request.padding, request.max_queue_delay,
      request.timeout, request.max_queue, request.workers, request.max_workers, request.runs_in_flight,
      request.max_sequences, request.context_length, request.cache_bytes, request.warm_up, request.stop_grace,
      request.max_restart_delay);
  return names;
}

TEST(ServingRequest, MergesEachSettingByItself) {
  const ServingRequest first = full("first", 1), second = full("second", 2);
  const std::size_t count = sources_of(first).size();
  EXPECT_EQ(sources_of(merge(first, second)), std::vector<std::string>(count, "first"));
  EXPECT_EQ(sources_of(merge({}, second)), std::vector<std::string>(count, "second"));
  EXPECT_EQ(sources_of(merge(first, {})), std::vector<std::string>(count, "first"));
  EXPECT_EQ(sources_of(merge({}, {})), std::vector<std::string>(count, "none"));
}

TEST(ServingRequest, KnowsWhoSaysIt) {
  const ProjectFile project = parse_project_file(
      "name: a\nmodel: {source: a.onnx}\nserving:\n  workers: devices:2\n  batching: throughput\n  max_queue: 5\n"
      "  warm_up: [{batch: 2}]\n",
      "gpux.yml");
  const ServingRequest of_project = serving_request_of(project);
  EXPECT_EQ(of_project.workers->value.count, 2U);
  EXPECT_EQ(of_project.workers->source.name, "serving.workers");
  EXPECT_THAT(of_project.workers->source.place, testing::HasSubstr("gpux.yml:4:"));
  EXPECT_EQ(of_project.batching->value, TextBatching::throughput);
  EXPECT_EQ(of_project.warm_up->value.front().front().second, 2);
  EXPECT_FALSE(of_project.timeout.has_value());
  ListedModel listed;
  listed.name = "b";
  listed.serving.max_queue = 9;
  const ServingRequest of_list = serving_request_of(listed, "models.yml");
  EXPECT_EQ(of_list.max_queue->source.name, "models.b.max_queue");
  EXPECT_EQ(of_list.max_queue->source.place, "models.yml");
  const ServingRequest merged = merge(of_list, of_project);
  EXPECT_EQ(merged.max_queue->value, 9U);
  EXPECT_EQ(merged.workers->source.name, "serving.workers");
}

}  // namespace
}  // namespace gpux
