#include "settings/load_request.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "settings/read_setting.h"

namespace gpux {
namespace {

using testing::ElementsAre;

constexpr Source::Kind by_flag = Source::Kind::flag, by_file = Source::Kind::file;

Source source(Source::Kind kind, const char* name) {
  return {.kind = kind, .name = name, .place = {}};
}

// All settings that have one value.
LoadRequest full(const Source& source, const std::string& word, unsigned number) {
  LoadRequest request;
  request.provider = {word, source};
  request.strict = {Strictness::nodes, source};
  request.device = {number, source};
  request.memory_bytes = {number, source};
  request.precision = {word, source};
  request.min_cosine = {1.0 / number, source};
  request.cache_directory = {word, source};
  request.intra_threads = {number, source};
  request.inter_threads = {number, source};
  request.optimization = {Optimization::basic, source};
  request.profile = {word, source};
  request.shapes = {word, source};
  request.timeout = {std::chrono::milliseconds(number), source};
  request.batch_axis = {BatchAxis::none, source};
  request.isolation = {Isolation::process, source};
  request.sandbox = {Sandbox::on, source};
  request.preflight = {true, source};
  request.preflight_timeout = {std::chrono::milliseconds(number), source};
  return request;
}

// The source of each of them.
std::vector<std::string> sources_of(const LoadRequest& request) {
  std::vector<std::string> names;
  const auto add = [&](const auto&... settings) {
    (names.push_back(settings ? settings->source.name : std::string("none")), ...);
  };
  add(request.provider, request.strict, request.device, request.memory_bytes, request.precision, request.min_cosine,
      request.cache_directory, request.intra_threads, request.inter_threads, request.optimization, request.profile,
      request.shapes, request.timeout, request.batch_axis, request.isolation, request.sandbox, request.preflight,
      request.preflight_timeout);
  return names;
}

TEST(LoadRequest, MergesEachSettingByItself) {
  const LoadRequest flags = full(source(by_flag, "flags"), "a", 1), file = full(source(by_file, "file"), "b", 2);
  const std::size_t count = sources_of(flags).size();
  EXPECT_EQ(sources_of(merge(flags, file)), std::vector<std::string>(count, "flags"));
  EXPECT_EQ(sources_of(merge({}, file)), std::vector<std::string>(count, "file"));
  EXPECT_EQ(sources_of(merge(flags, {})), std::vector<std::string>(count, "flags"));
  EXPECT_EQ(sources_of(merge({}, {})), std::vector<std::string>(count, "none"));
  LoadRequest one;
  one.device = {7, source(by_flag, "one")};
  const LoadRequest merged = merge(one, file);
  EXPECT_EQ(merged.device->value, 7U);
  EXPECT_EQ(merged.provider->value, "b");
}

TEST(LoadRequest, MergesListsOneAfterTheOther) {
  LoadRequest first, second;
  first.provider_libraries = {{"a", "a.so"}};
  second.provider_libraries = {{"b", "b.so"}};
  first.worker_use = WorkerUse::once;
  second.worker_use = WorkerUse::restarted;
  const LoadRequest merged = merge(first, second);
  ASSERT_EQ(merged.provider_libraries.size(), 2U);
  EXPECT_EQ(merged.provider_libraries.back().name, "b");
  EXPECT_EQ(merged.worker_use, WorkerUse::once);
}

TEST(LoadRequest, KeepsTheTypesOfCallers) {
  ModelOptions options;
  options.provider = "my.plugin";
  options.provider_options = {{"my.plugin", {{"a.b=c", "d=e"}}, {}}, {"cuda", {{"x", "1"}}, "config.toml:3"}};
  options.memory_bytes = 10;
  options.timeout = std::chrono::milliseconds(1500);
  options.custom_operator_libraries = {"own.so"};
  const LoadRequest request = request_of(options);
  EXPECT_EQ(request.provider->source.name, "ModelOptions");
  ASSERT_EQ(request.provider_options.size(), 2U);
  EXPECT_EQ(request.provider_options[0].provider, "my.plugin");
  EXPECT_EQ(request.provider_options[0].values.front().first, "a.b=c");
  EXPECT_EQ(request.provider_options[0].where, "provider_options");
  EXPECT_EQ(request.provider_options[1].where, "config.toml:3");
  EXPECT_EQ(request.memory_bytes->value, 10U);
  EXPECT_EQ(request.timeout->value, std::chrono::milliseconds(1500));
  EXPECT_FALSE(request.device.has_value());
  EXPECT_EQ(request.custom_operator_libraries.front().source.name, "custom_operator_libraries");
}

// No name of a flag.
TEST(LoadRequest, RefusesWhatCallersGiveByTheNameOfTheMember) {
  struct Case {
    std::function<void(ModelOptions&)> set;
    std::string message;
  };

  const std::vector<Case> cases{
      {[](ModelOptions& options) { options.precision = "foo"; },
       "precision is 'foo'; accepted: fp32, tf32, fp16, bf16, int8, int8-bf16, any"},
      {[](ModelOptions& options) { options.intra_threads = 0; }, "intra_threads is '0'; accepted: 1 to 1024"},
      {[](ModelOptions& options) { options.inter_threads = 4096; }, "inter_threads is '4096'; accepted: 1 to 1024"},
      {[](ModelOptions& options) { options.timeout = std::chrono::milliseconds(0); },
       "timeout is '0'; accepted: more than 0 ms"},
  };
  for (const Case& one : cases) {
    ModelOptions options;
    one.set(options);
    try {
      (void)request_of(options);
      ADD_FAILURE() << one.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), one.message);
      EXPECT_EQ(error.code(), ErrorCode::usage);
    }
  }
}

TEST(LoadRequest, KnowsThePlacesOfAGpuxYml) {
  const ProjectFile project = parse_project_file(
      "name: a\nmodel: {source: a.onnx}\nruntime:\n  strict: nodes\n  timeout: 2s\n  threads: {intra: 3}\n"
      "  providers:\n    - {name: mine, options: {x: 1}}\n    - cpu\nserving: {batch_axis: none}\n",
      "gpux.yml");
  const LoadRequest request = request_of(project);
  EXPECT_EQ(request.provider->value, "mine,cpu");
  EXPECT_EQ(request.provider->source.name, "gpux.yml");
  EXPECT_THAT(place_of(request.provider->source), testing::HasSubstr("gpux.yml:7:"));
  EXPECT_EQ(request.strict->value, Strictness::nodes);
  EXPECT_EQ(request.intra_threads->value, 3U);
  EXPECT_EQ(request.timeout->value, std::chrono::seconds(2));
  EXPECT_EQ(request.batch_axis->source.name, "serving.batch_axis");
  ASSERT_EQ(request.provider_options.size(), 2U);
  EXPECT_THAT(request.provider_options.front().where, testing::HasSubstr("gpux.yml:8:"));
}

TEST(LoadRequest, KnowsTheEntryOfAListOfModels) {
  ListedModel listed;
  listed.name = "a";
  listed.provider = "cuda";
  listed.serving.batch_axis = BatchAxis::zero;
  const LoadRequest request = request_of(listed);
  EXPECT_EQ(request.provider->source.name, "the list of models");
  EXPECT_EQ(request.batch_axis->source.name, "models.a.batch_axis");
  EXPECT_FALSE(request.isolation.has_value());
}

class Variables : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : variable_names()) ::unsetenv(name.c_str());
  }
};

TEST_F(Variables, BecomeSettingsWithTheirNamesAsSource) {
  ::setenv("GPUX_PROVIDER", "cuda,cpu", 1);
  ::setenv("GPUX_MEMORY", "2GiB", 1);
  ::setenv("GPUX_TIMEOUT", "3s", 1);
  ::setenv("GPUX_DEVICE", "", 1);
  const LoadRequest request = request_of_variables();
  EXPECT_EQ(request.provider->source, source(Source::Kind::variable, "GPUX_PROVIDER"));
  EXPECT_EQ(request.memory_bytes->value, std::uint64_t{2} << 30);
  EXPECT_EQ(request.timeout->value, std::chrono::seconds(3));
  EXPECT_FALSE(request.device.has_value());
}

TEST_F(Variables, AreRefusedByTheirNames) {
  ::setenv("GPUX_THREADS", "many", 1);
  EXPECT_EQ(variable_problem("GPUX_THREADS"), "GPUX_THREADS is 'many'; accepted: 1 to 1024");
  EXPECT_EQ(variable_problem("GPUX_DEVICE"), "");
  EXPECT_THROW((void)request_of_variables(), Error);
  // Those that are of no load are looked at where they are used.
  ::unsetenv("GPUX_THREADS");
  ::setenv("GPUX_VECTOR_LEVEL", "middle", 1);
  EXPECT_NE(variable_problem("GPUX_VECTOR_LEVEL"), "");
  EXPECT_NO_THROW((void)request_of_variables());
}

}  // namespace
}  // namespace gpux
