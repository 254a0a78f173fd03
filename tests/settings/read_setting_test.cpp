#include "settings/read_setting.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux {
namespace {

const Source flag{.kind = Source::Kind::flag, .name = "--it", .place = {}};

TEST(ReadSetting, TakesWhatIsAccepted) {
  EXPECT_EQ(read_number("0", flag), 0U);
  EXPECT_EQ(read_thread_count("1024", flag), 1024U);
  EXPECT_EQ(read_strictness("TRUE", flag), Strictness::provider);
  EXPECT_EQ(read_strictness("nodes", flag), Strictness::nodes);
  EXPECT_EQ(read_strictness("no", flag), Strictness::off);
  EXPECT_EQ(read_memory_size("2kB", flag), 2000U);
  EXPECT_EQ(read_precision("INT8-bf16", flag), "int8-bf16");
  EXPECT_EQ(read_min_cosine("0.5", flag), 0.5);
  EXPECT_EQ(read_optimization("Layout", flag), Optimization::layout);
  EXPECT_EQ(read_isolation("process", flag), Isolation::process);
  EXPECT_EQ(read_sandbox("strict", flag), Sandbox::strict);
  EXPECT_FALSE(read_switch("off", flag));
  EXPECT_EQ(read_duration("1.5s", flag), std::chrono::milliseconds(1500));
  EXPECT_EQ(read_batch_axis("none", flag), BatchAxis::none);
  EXPECT_EQ(read_provider_library("mine=/a=b.so", flag).path, "/a=b.so");
  EXPECT_EQ(read_entry("a.b=", flag), (std::pair<std::string, std::string>("a.b", "")));
}

TEST(ReadSetting, SplitsOptionsOfProviders) {
  const ProviderOptions named = read_provider_option("cuda.device_id=1=2", flag);
  EXPECT_EQ(named.provider, "cuda");
  EXPECT_EQ(named.values, (std::vector<std::pair<std::string, std::string>>{{"device_id", "1=2"}}));
  EXPECT_EQ(named.where, "--it");
  EXPECT_EQ(read_provider_option("level=2", flag).provider, "");
}

TEST(ReadSetting, NamesTheSourceOfWhatItRefuses) {
  struct Case {
    std::function<void()> read;
    std::string message;
  };

  const std::vector<Case> cases{
      {[] { read_number("-1", flag); }, "--it is '-1'; accepted: a number from 0"},
      {[] { read_number("1x", flag); }, "--it is '1x'; accepted: a number from 0"},
      {[] { read_thread_count("0", flag); }, "--it is '0'; accepted: 1 to 1024"},
      {[] { read_strictness("maybe", flag); }, "--it is 'maybe'; accepted: true, nodes, false"},
      {[] { read_memory_size("2 pounds", flag); },
       "--it is '2 pounds'; accepted: a number of bytes, or a size like 2GB"},
      {[] { read_precision("foo", flag); }, "--it is 'foo'; accepted: fp32, tf32, fp16, bf16, int8, int8-bf16, any"},
      {[] { read_min_cosine("nan", flag); }, "--it is 'nan'; accepted: more than 0, at most 1"},
      {[] { checked_min_cosine(2, flag); }, "--it is '2'; accepted: more than 0, at most 1"},
      {[] { read_optimization("most", flag); }, "--it is 'most'; accepted: disabled, basic, extended, layout, all"},
      {[] { read_isolation("vm", flag); }, "--it is 'vm'; accepted: thread, process"},
      {[] { read_sandbox("maybe", flag); }, "--it is 'maybe'; accepted: on, off, strict"},
      {[] { read_switch("1", flag); }, "--it is '1'; accepted: on, off"},
      {[] { read_duration("0s", flag); }, "--it is '0s'; accepted: a time like 5s or 500ms"},
      {[] { read_batch_axis("1", flag); }, "--it is '1'; accepted: 0, none"},
      {[] { read_provider_library("=a.so", flag); }, "--it is '=a.so'; accepted: NAME=PATH"},
      {[] { read_entry("key", flag); }, "--it is 'key'; accepted: KEY=VALUE"},
      {[] { read_provider_option("key", flag); }, "--it is 'key'; accepted: [PROVIDER.]KEY=VALUE"},
  };
  for (const Case& one : cases) {
    try {
      one.read();
      ADD_FAILURE() << one.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), one.message);
      EXPECT_EQ(error.code(), ErrorCode::usage);
    }
  }
}

TEST(ReadSetting, PointsToThePlaceInAFile) {
  try {
    refuse("x", {.kind = Source::Kind::file, .name = "serving.workers", .place = "gpux.yml:3:5"}, "a number");
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "gpux.yml:3:5: serving.workers is 'x'; accepted: a number");
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
  }
}

}  // namespace
}  // namespace gpux
