#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "multiply_model.h"
#include "runtime_child.h"

namespace gpux::plugin_example {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAreArray;
using testing::HasSubstr;

const std::string on_example = "placed CPUExecutionProvider: plus; GpuxExampleExecutionProvider: times";
const std::string on_cpu = "placed CPUExecutionProvider: times plus";
const std::string told = "GpuxExampleExecutionProvider was set to fail at: ";

const MultiplyModel two_inputs{{{2, 3}, {}}, {{2, 3}, {}}};
const std::map<std::string, Feed> two_feeds{{"left", {{2, 3}, {1, 2, 3, 4, 5, 6}}},
                                            {"right", {{2, 3}, {0.5F, -1, 2, 0, 10, 1e-3F}}}};
const Operand unknown_rank{{}, {}, false};
const std::vector<float> two_feeds_sum{0.5F * 1 + 1, -1.0F * 2 + 1, 7, 1, 51, 6 * 1e-3F + 1};

Environment fail(const std::string& command) {
  return {{"GPUX_EXAMPLE_FAIL", command}};
}

void expect_lines(const ChildOutcome& outcome, const std::vector<std::string>& parts) {
  std::vector<testing::Matcher<std::string>> lines;
  lines.reserve(parts.size());
  for (const std::string& part : parts) lines.push_back(HasSubstr(part));
  EXPECT_THAT(outcome.lines, ElementsAreArray(lines));
  EXPECT_EQ(outcome.exit_code, 0);
}

void report_runs(const Report& report, Ort::Session& session, int count) {
  for (int number = 1; number <= count; ++number) {
    const std::string line = "run " + std::to_string(number) + " ";
    try {
      const Feed sum = run(session, two_feeds);
      report(line + (sum.values == two_feeds_sum ? "right" : "wrong"));
    } catch (const Ort::Exception& error) {
      report(line + text_of(error));
    }
  }
}

/// A host that does what each step of ONNX Runtime allows, and says how the step went.
void whole_life(const Report& report, const std::map<std::string, std::string>& provider_options,
                const std::map<std::string, std::string>& configuration) {
  Runtime runtime;
  try {
    runtime.register_plugin();
  } catch (const Ort::Exception& error) {
    report("register " + text_of(error));
    return;
  }
  const auto devices = runtime.devices();
  report("devices " + std::to_string(devices.size()));
  try {
    Ort::Session session = runtime.create_session(serialize(two_inputs), devices, provider_options, configuration);
    report("placed " + placement(session));
    report_runs(report, session, 3);
  } catch (const Ort::Exception& error) {
    report("session " + text_of(error));
  }
}

struct FailureCase {
  std::string name;
  Environment environment;
  std::map<std::string, std::string> provider_options;
  std::map<std::string, std::string> configuration;
  std::vector<std::string> lines;
};

void PrintTo(const FailureCase& failure, std::ostream* stream) {
  *stream << failure.name;
}

class FailureOnCommand : public testing::TestWithParam<FailureCase> {};

TEST_P(FailureOnCommand, IsSeenByTheHostWhereItHappens) {
  const FailureCase& failure = GetParam();
  expect_lines(run_in_child(failure.environment,
                            [&failure](const Report& report) {
                              whole_life(report, failure.provider_options, failure.configuration);
                            }),
               failure.lines);
}

const std::map<std::string, std::string> no_fallback{{"session.disable_cpu_ep_fallback", "1"}};

INSTANTIATE_TEST_SUITE_P(
    Table, FailureOnCommand,
    testing::Values(
        FailureCase{"none", {}, {}, {}, {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"load", fail("load"), {}, {}, {"register failed 11: " + told + "load"}},
        FailureCase{
            "no_device", fail("no-device"), {}, {}, {"devices 0", on_cpu, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"create", fail("create"), {}, {}, {"devices 1", "session failed 1: "}},
        FailureCase{"create_by_option", {}, {{"fail", "create"}}, {}, {"devices 1", "session failed 1: "}},
        FailureCase{"capability",
                    fail("capability"),
                    {},
                    {},
                    {"devices 1", on_cpu, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"capability_by_option",
                    {},
                    {{"fail", "capability"}},
                    {},
                    {"devices 1", on_cpu, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{
            "capability_without_fallback", fail("capability"), {}, no_fallback, {"devices 1", "session failed 1: "}},
        FailureCase{"claim_nothing",
                    fail("claim-nothing"),
                    {},
                    {},
                    {"devices 1", on_cpu, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"compile", fail("compile"), {}, {}, {"devices 1", "session failed 11: "}},
        FailureCase{"compile_by_option", {}, {{"fail", "compile"}}, {}, {"devices 1", "session failed 11: "}},
        FailureCase{
            "run", fail("run:2"), {}, {}, {"devices 1", on_example, "run 1 right", "run 2 failed 11: ", "run 3 right"}},
        // Two inputs and a product of 24 bytes each lie on the device at once.
        FailureCase{"enough_memory",
                    fail("out-of-memory:72"),
                    {},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"no_memory_for_the_product",
                    fail("out-of-memory:71"),
                    {},
                    {},
                    {"devices 1", on_example, "run 1 failed 11: ", "no room for 24 bytes", "run 3 failed 11: "}},
        FailureCase{"no_memory_for_an_input",
                    {},
                    {{"fail", "out-of-memory:47"}},
                    {},
                    {"devices 1", on_example, "run 1 failed 11: ", "no room for 24 bytes", "run 3 failed 11: "}},
        FailureCase{"run_by_option",
                    {},
                    {{"fail", "run:1"}},
                    {},
                    {"devices 1", on_example, "run 1 failed 11: ", "run 2 right", "run 3 right"}},
        FailureCase{"option_before_environment",
                    fail("compile"),
                    {{"fail", "run:3"}},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 failed 11: "}},
        FailureCase{"broken",
                    fail("broken:2"),
                    {},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 failed 11: ", "run 3 failed 11: "}},
        FailureCase{"broken_until_released",
                    {{"GPUX_EXAMPLE_FAIL", "broken:1"}, {"GPUX_EXAMPLE_RELEASE", "/"}},
                    {},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"of_another_device",
                    fail("run:1@1,broken:1@7"),
                    {},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 right"}},
        FailureCase{"of_this_device",
                    fail("run:1@1,run:3@0,run:2"),
                    {},
                    {},
                    {"devices 1", on_example, "run 1 right", "run 2 right", "run 3 failed 11: "}},
        FailureCase{"no_such_device",
                    fail("run:1@8"),
                    {},
                    {},
                    {"GPUX_EXAMPLE_FAIL: 'run:1@8' is no failure to command; accepted"}},
        FailureCase{"before_there_are_devices",
                    fail("load@0"),
                    {},
                    {},
                    {"GPUX_EXAMPLE_FAIL: 'load@0' is no failure to command; accepted"}},
        FailureCase{"load_by_option", {}, {{"fail", "load"}}, {}, {"devices 1", "happens before options are read"}},
        FailureCase{
            "unknown_option", {}, {{"speed", "high"}}, {}, {"devices 1", "knows no option 'speed'; accepted: fail"}},
        FailureCase{"unknown_command_by_option",
                    {},
                    {{"fail", "loudly"}},
                    {},
                    {"devices 1", "option 'fail': 'loudly' is no failure to command; accepted: load, no-device"}},
        FailureCase{
            "unknown_command", fail("run"), {}, {}, {"GPUX_EXAMPLE_FAIL: 'run' is no failure to command; accepted"}},
        // A session is made for one device.
        FailureCase{"several_devices", {{"GPUX_EXAMPLE_DEVICES", "3"}}, {}, {}, {"devices 3", "expected one device"}},
        FailureCase{"too_many_devices",
                    {{"GPUX_EXAMPLE_DEVICES", "9"}},
                    {},
                    {},
                    {"GPUX_EXAMPLE_DEVICES is '9'; accepted: 1 to 8"}},
        FailureCase{"no_number_of_devices",
                    {{"GPUX_EXAMPLE_DEVICES", "two"}},
                    {},
                    {},
                    {"GPUX_EXAMPLE_DEVICES is 'two'; accepted: 1 to 8"}},
        FailureCase{"unreadable_speed",
                    {{"GPUX_EXAMPLE_SPEED", "1,2"}},
                    {},
                    {},
                    {"GPUX_EXAMPLE_SPEED is '1,2'; accepted: IN,COMPUTE,OUT, each from 0 to 100000 (MB/s, ms, MB/s)"}},
        FailureCase{
            "speed_with_more", {{"GPUX_EXAMPLE_SPEED", "1,2,3,4"}}, {}, {}, {"GPUX_EXAMPLE_SPEED is '1,2,3,4'"}},
        FailureCase{"unreadable_pinned",
                    {{"GPUX_EXAMPLE_PINNED", "maybe"}},
                    {},
                    {},
                    {"GPUX_EXAMPLE_PINNED is 'maybe'; accepted: on, off"}},
        FailureCase{"unreadable_runs",
                    {{"GPUX_EXAMPLE_RUNS", "two"}},
                    {},
                    {},
                    {"GPUX_EXAMPLE_RUNS is 'two'; accepted: one, several"}},
        FailureCase{
            "no_number", fail("run:0"), {}, {}, {"GPUX_EXAMPLE_FAIL: 'run:0' is no failure to command; accepted"}},
        FailureCase{"huge_number",
                    fail("slow:99999999999999999999"),
                    {},
                    {},
                    {"'slow:99999999999999999999' is no failure to command; accepted"}}),
    [](const auto& info) { return info.param.name; });

TEST(ExampleProvider, SaysWhoMadeIt) {
  expect_lines(run_in_child({},
                            [](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              const Ort::ConstEpDevice device = runtime.devices().at(0);
                              report(std::string("vendor ") + device.EpVendor());
                              report("on cpu " + std::to_string(device.Device().Type() == OrtHardwareDeviceType_CPU));
                              report(std::string("version ") + device.EpMetadata().GetValue("version"));
                              report(std::string("knows fail: ") + device.EpOptions().GetValue("fail") + ".");
                            }),
               {"vendor gpux", "on cpu 1", "version 0.1.0", "knows fail: ."});
}

TEST(ExampleProvider, HasNoRoomForAConstant) {
  const MultiplyModel model{{{2, 3}, {}}, {{2, 3}, {1, 2, 3, 4, 5, 6}}};
  expect_lines(
      run_in_child(
          {},
          [&model](const Report& report) {
            Runtime runtime;
            runtime.register_plugin();
            try {
              (void)runtime.create_session(serialize(model), runtime.devices(), {{"fail", "out-of-memory:23"}});
              report("made");
            } catch (const Ort::Exception& error) {
              report(text_of(error));
            }
          }),
      {"failed 11: "});
}

/// The bytes of six floats as the host would read them where `value` lies.
std::vector<float> as_if_on_the_host(const Ort::Value& value) {
  const auto* first = value.GetTensorData<float>();
  return {first, first + 6};
}

TEST(ExampleProvider, HasMemoryThatIsNotTheHosts) {
  expect_lines(run_in_child({},
                            [](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              const std::vector<float> sent{1, -2, 3, 4, 5, 6};
                              std::vector<float> there_and_back(6);
                              const auto host = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
                              const std::array<std::int64_t, 2> shape{2, 3};
                              const auto from = Ort::Value::CreateTensor<float>(host, const_cast<float*>(sent.data()),
                                                                                6, shape.data(), 2);
                              const auto back =
                                  Ort::Value::CreateTensor<float>(host, there_and_back.data(), 6, shape.data(), 2);
                              const auto first = runtime.device_value(shape);
                              const auto second = runtime.device_value(shape);
                              runtime.copy(from, first);
                              runtime.copy(first, second);
                              runtime.copy(second, back);
                              report(as_if_on_the_host(first) == sent ? "the host's" : "its own");
                              report(as_if_on_the_host(first) == as_if_on_the_host(second) ? "same" : "other");
                              report(there_and_back == sent ? "right" : "wrong");
                            }),
               {"its own", "same", "right"});
}

TEST(ExampleProvider, GivesSessionsFailuresOfTheirOwn) {
  expect_lines(
      run_in_child({},
                   [](const Report& report) {
                     Runtime runtime;
                     runtime.register_plugin();
                     const std::string model = serialize(two_inputs);
                     Ort::Session sound = runtime.create_session(model, runtime.devices());
                     Ort::Session failing = runtime.create_session(model, runtime.devices(), {{"fail", "run:1"}});
                     report_runs(report, sound, 2);
                     report_runs(report, failing, 2);
                   }),
      {"run 1 right", "run 2 right", "run 1 failed 11: ", "run 2 right"});
}

// --- what it claims -----------------------------------------------------------------------------------------------

struct ClaimCase {
  std::string name;
  MultiplyModel model;
  std::map<std::string, Feed> feeds;
  bool claimed;
};

void PrintTo(const ClaimCase& claim, std::ostream* stream) {
  *stream << claim.name;
}

class Claim : public testing::TestWithParam<ClaimCase> {};

TEST_P(Claim, IsWhatItComputesAsCpuDoes) {
  const ClaimCase& claim = GetParam();
  expect_lines(
      run_in_child({},
                   [&claim](const Report& report) {
                     Runtime runtime;
                     runtime.register_plugin();
                     const std::string model = serialize(claim.model);
                     Ort::Session session = runtime.create_session(model, runtime.devices());
                     Ort::Session reference = runtime.create_session(model, {});
                     report("placed " + placement(session));
                     if (claim.model.element_type != 1) return;
                     const Feed got = run(session, claim.feeds);
                     const Feed wanted = run(reference, claim.feeds);
                     report(got.shape == wanted.shape && got.values == wanted.values ? "as CPU" : "not as CPU");
                   }),
      [&claim] {
        std::vector<std::string> lines{claim.claimed ? on_example : on_cpu};
        if (claim.model.element_type == 1) lines.emplace_back("as CPU");
        return lines;
      }());
}

const Feed six{{2, 3}, {1, -2, 3, 4, 5, 6}};
const Feed other_six{{2, 3}, {0.5F, 1, 2, 0, -10, 3}};
const Feed three{{3}, {2, 3, 4}};
const Feed one{{1}, {2.5F}};
const Feed rank_zero{{}, {2.5F}};

INSTANTIATE_TEST_SUITE_P(
    Table, Claim,
    testing::Values(
        ClaimCase{"equal", two_inputs, {{"left", six}, {"right", other_six}}, true},
        ClaimCase{"same_names", {{{"rows", 3}, {}}, {{"rows", 3}, {}}}, {{"left", six}, {"right", other_six}}, true},
        ClaimCase{"other_names", {{{"rows", 3}, {}}, {{"lines", 3}, {}}}, {{"left", six}, {"right", other_six}}, false},
        ClaimCase{"square", {{{"rows", 3}, {}}, {}, true}, {{"left", six}}, true},
        ClaimCase{"constant", {{{2, 3}, {}}, {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {{"left", six}}, true},
        ClaimCase{"left_constant", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 3}, {}}}, {{"right", six}}, true},
        ClaimCase{"scalar_constant", {{{"rows", 3}, {}}, {{}, {4}}}, {{"left", six}}, true},
        ClaimCase{"left_scalar_constant", {{{}, {4}}, {{"rows", 3}, {}}}, {{"right", six}}, true},
        ClaimCase{"one_element", {{{2, 3}, {}}, {{1}, {}}}, {{"left", six}, {"right", one}}, true},
        ClaimCase{"left_one_element", {{{1}, {}}, {{2, 3}, {}}}, {{"left", one}, {"right", six}}, true},
        ClaimCase{"empty", {{{"rows", 3}, {}}, {{1}, {}}}, {{"left", {{0, 3}, {}}}, {"right", one}}, true},
        ClaimCase{"rank_zero_input", {{{2, 3}, {}}, {{}, {}}}, {{"left", six}, {"right", rank_zero}}, false},
        ClaimCase{"unknown_rank", {{{2, 3}, {}}, unknown_rank}, {{"left", six}, {"right", three}}, false},
        ClaimCase{"both_unknown_rank", {unknown_rank, unknown_rank}, {{"left", six}, {"right", three}}, false},
        ClaimCase{"broadcast", {{{2, 3}, {}}, {{3}, {}}}, {{"left", six}, {"right", three}}, false},
        ClaimCase{"two_sided_broadcast",
                  {{{2, 1}, {}}, {{1, 3}, {}}},
                  {{"left", {{2, 1}, {1, 2}}}, {"right", {{1, 3}, {1, 2, 3}}}},
                  false},
        ClaimCase{"double_precision", {{{2, 3}, {}}, {{2, 3}, {}}, false, 11}, {}, false}),
    [](const auto& info) { return info.param.name; });

// The copy that ONNX Runtime 1.31 puts behind a node of the host leaves the value in the host's memory.
TEST(ExampleProvider, TakesWhatTheHostHasComputed) {
  const MultiplyModel model{.left = {{"rows", 3}, {}}, .right = {{"rows", 3}, {}}, .negated = true};
  expect_lines(run_in_child({},
                            [&model](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              Ort::Session session = runtime.create_session(serialize(model), runtime.devices());
                              report("placed " + placement(session));
                              const Feed sum = run(session, {{"left", six}, {"right", other_six}});
                              report(sum.values == std::vector<float>{0.5F, 3, -5, 1, 51, -17} ? "right" : "wrong");
                            }),
               {"placed CPUExecutionProvider: minus plus; GpuxExampleExecutionProvider: times", "right"});
}

TEST(ExampleProvider, RefusesTwoSizesForOneName) {
  const MultiplyModel model{{{"rows", 3}, {}}, {{"rows", 3}, {}}};
  expect_lines(run_in_child({},
                            [&model](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              Ort::Session session = runtime.create_session(serialize(model), runtime.devices());
                              try {
                                run(session, {{"left", six}, {"right", {{4, 3}, std::vector<float>(12)}}});
                                report("ran");
                              } catch (const Ort::Exception& error) {
                                report(text_of(error));
                              }
                            }),
               {"multiplies equal shapes, or one by a scalar; got [2,3] and [4,3]"});
}

// --- what waits ---------------------------------------------------------------------------------------------------

std::string how_it_ended(std::future<Feed>& running) {
  try {
    return running.get().values == two_feeds_sum ? "right" : "wrong";
  } catch (const Ort::Exception& error) {
    return text_of(error);
  }
}

void cancel(Ort::Session& session, const char* value) {
  const char* key = "cancel";
  session.SetEpDynamicOptions(&key, &value, 1);
}

/// Starts a run that waits, reports that it does, lets `release` end it and reports how it ended.
void report_waiting(const Report& report, Ort::Session& session, const Ort::RunOptions& options,
                    const std::function<void()>& release) {
  auto running = std::async(std::launch::async, [&] { return run(session, two_feeds, options); });
  report(running.wait_for(milliseconds(100)) == std::future_status::timeout ? "waits" : "does not wait");
  release();
  report("ended " + how_it_ended(running));
}

TEST(Waiting, HangEndsWellOnceTheFileIsThere) {
  const auto file = std::filesystem::path(testing::TempDir()) / ("gpux_release_" + std::to_string(getpid()));
  expect_lines(run_in_child({{"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", file}},
                            [&file](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              Ort::Session session = runtime.create_session(serialize(two_inputs), runtime.devices());
                              report_waiting(report, session, Ort::RunOptions{},
                                             [&file] { std::ofstream(file).close(); });
                              report_runs(report, session, 1);
                            }),
               {"waits", "ended right", "run 1 right"});
  std::filesystem::remove(file);
}

TEST(Waiting, HangAtCompileEndsWellOnceTheFileIsThere) {
  const auto file = std::filesystem::path(testing::TempDir()) / ("gpux_compile_" + std::to_string(getpid()));
  expect_lines(run_in_child({{"GPUX_EXAMPLE_FAIL", "hang-compile"}, {"GPUX_EXAMPLE_RELEASE", file}},
                            [&file](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              auto creating = std::async(std::launch::async, [&runtime] {
                                return runtime.create_session(serialize(two_inputs), runtime.devices());
                              });
                              const bool waits = creating.wait_for(milliseconds(100)) == std::future_status::timeout;
                              report(waits ? "waits" : "does not wait");
                              std::ofstream(file).close();
                              Ort::Session session = creating.get();
                              report_runs(report, session, 1);
                            }),
               {"waits", "run 1 right"});
  std::filesystem::remove(file);
}

TEST(Waiting, CancelEndsEveryWaitUntilItIsTakenBack) {
  expect_lines(
      run_in_child(
          {},
          [](const Report& report) {
            Runtime runtime;
            runtime.register_plugin();
            Ort::Session session = runtime.create_session(serialize(two_inputs), runtime.devices(), {{"fail", "hang"}});
            const auto stop = [&session] { cancel(session, "1"); };
            report_waiting(report, session, Ort::RunOptions{}, stop);
            report_runs(report, session, 1);
            cancel(session, "0");
            report_waiting(report, session, Ort::RunOptions{}, stop);
            try {
              cancel(session, "please");
            } catch (const Ort::Exception& error) {
              report(text_of(error));
            }
          }),
      {"waits", "computation cancelled", "computation cancelled", "waits", "computation cancelled",
       "dynamic option 'cancel' is 'please'; accepted: 0, 1"});
}

TEST(Waiting, RunOptionsCannotEndAComputation) {
  expect_lines(
      run_in_child(
          {},
          [](const Report& report) {
            Runtime runtime;
            runtime.register_plugin();
            Ort::Session session = runtime.create_session(serialize(two_inputs), runtime.devices(), {{"fail", "hang"}});
            Ort::RunOptions options;
            report_waiting(report, session, options, [&] {
              options.SetTerminate();
              std::this_thread::sleep_for(milliseconds(100));
              cancel(session, "1");
            });
          }),
      {"waits", "computation cancelled"});
}

TEST(Waiting, SlowTakesItsTimeAndCanBeCancelled) {
  expect_lines(run_in_child({{"GPUX_EXAMPLE_FAIL", "slow:150"}},
                            [](const Report& report) {
                              Runtime runtime;
                              runtime.register_plugin();
                              Ort::Session session = runtime.create_session(serialize(two_inputs), runtime.devices());
                              const auto start = std::chrono::steady_clock::now();
                              report_runs(report, session, 1);
                              const auto taken = std::chrono::steady_clock::now() - start;
                              report(taken >= milliseconds(150) ? "slow" : "too quick");
                              Ort::Session slower = runtime.create_session(serialize(two_inputs), runtime.devices(),
                                                                           {{"fail", "slow:60000"}});
                              report_waiting(report, slower, Ort::RunOptions{}, [&] { cancel(slower, "1"); });
                            }),
               {"run 1 right", "slow", "waits", "computation cancelled"});
}

std::vector<std::uint64_t> counted_copies() {
  void* const library = ::dlopen(EXAMPLE_PROVIDER_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  using Counting = void (*)(std::uint64_t*);
  const auto count = reinterpret_cast<Counting>(::dlsym(library, "GpuxExampleCopies"));
  std::vector<std::uint64_t> counts(14);
  count(counts.data());
  return counts;
}

// Two inputs of 24 bytes go to the device, and their product comes back for the Add.
TEST(CopyCounts, CountTheCopiesOfEachRun) {
  const std::string file = testing::TempDir() + "copies-" + std::to_string(::getpid());
  const ChildOutcome outcome = run_in_child({{"GPUX_EXAMPLE_COPIES", file}}, [](const Report& report) {
    Runtime runtime;
    runtime.register_plugin();
    Ort::Session session = runtime.create_session(serialize(two_inputs), runtime.devices());
    const std::vector<std::uint64_t> before = counted_copies();
    (void)run(session, two_feeds);
    const std::vector<std::uint64_t> after = counted_copies();
    std::string line;
    for (std::size_t i = 0; i < after.size(); ++i) line += std::to_string(after[i] - before[i]) + " ";
    report(line);
  });
  expect_lines(outcome, {"2 48 1 24 0 0 3 72 0 0 0 0 0 0 "});
  std::ifstream written(file);
  const std::string text((std::istreambuf_iterator<char>(written)), {});
  EXPECT_EQ(text,
            "{\"to_device\": 2, \"to_device_bytes\": 48, \"from_device\": 1, \"from_device_bytes\": 24, "
            "\"between\": 0, \"between_bytes\": 0, \"allocations\": 3, \"allocation_bytes\": 72, "
            "\"pinned_to_device\": 0, \"pinned_to_device_bytes\": 0, \"pinned_from_device\": 0, "
            "\"pinned_from_device_bytes\": 0, \"pinned_allocations\": 0, \"pinned_allocation_bytes\": 0}\n");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace gpux::plugin_example
