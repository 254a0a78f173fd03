// Models in worker processes: what goes between the processes, and that results and errors are those of a session in
// this process.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error_number.h"
#include "base/eventually.h"
#include "base/own_program.h"
#include "base/plain_signals.h"
#include "base/sanitizers.h"
#include "base/stop_process.h"
#include "gpux/error.h"
#include "isolation/load_facts.h"
#include "isolation/load_message.h"
#include "isolation/output_forms.h"
#include "isolation/restart_delay.h"
#include "isolation/run_channel.h"
#include "isolation/run_mark.h"
#include "isolation/value_encoding.h"
#include "isolation/worker_process.h"
#include "runtime/cpu_runtime.h"
#include "runtime/scheduling/session_replica.h"
#include "runtime/session/stop_handle.h"

// So many calls fail for want of memory in the kernel.
std::atomic<int> failing_sends = 0;

// Commands that limit how many runs compute.
std::atomic<int> sent_limits = 0;

// In place of the C library's.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (failing_sends > 0) {
    --failing_sends;
    errno = ENOBUFS;
    return -1;
  }
  using gpux::isolation::WorkerCommand;
  WorkerCommand command;
  if (message->msg_iov->iov_len == sizeof command) {
    std::memcpy(&command, message->msg_iov->iov_base, sizeof command);
    if (command.kind == WorkerCommand::Kind::limit_computing) ++sent_limits;
  }
  return static_cast<ssize_t>(::syscall(SYS_sendmsg, socket, message, flags));
}

namespace gpux {
namespace {

using isolation::describe_end;
using isolation::encode_values;
using isolation::EncodedValues;
using isolation::failures_in_a_row;
using isolation::load_report_from;
using isolation::LoadReport;
using isolation::read_values;
using isolation::restart_delay;
using isolation::ValuesPlace;
using isolation::worker_load_from;
using isolation::WorkerLoad;
using isolation::write_values;
using std::chrono::milliseconds;
using testing::HasSubstr;

const bool has_plain_signals = (test::leave_signals_to_programs(), true);

// --- decisions
// --------------------------------------------------------------------------------------------------------

TEST(RestartDelay, DoublesFromATenthOfASecondToItsLimit) {
  const milliseconds max(10'000);
  const std::vector<int> expected{0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10'000, 10'000};
  for (unsigned failures = 0; failures < expected.size(); ++failures) {
    EXPECT_EQ(restart_delay(failures, max), milliseconds(expected[failures])) << failures;
  }
  EXPECT_EQ(restart_delay(4'000'000'000, max), max);
  EXPECT_EQ(restart_delay(5, milliseconds(0)), milliseconds(0));
}

TEST(RestartDelay, StartsAnewAfterAMinuteWithoutAnEnd) {
  EXPECT_EQ(failures_in_a_row(0, milliseconds(5)), 1U);
  EXPECT_EQ(failures_in_a_row(7, milliseconds(59'999)), 8U);
  EXPECT_EQ(failures_in_a_row(7, milliseconds(60'000)), 1U);
}

TEST(ErrorOfAWorker, IsOneOfTheCodes) {
  EXPECT_EQ(error_code_of(6), ErrorCode::invalid_input);
  EXPECT_EQ(error_code_of(130), ErrorCode::interrupted);
  for (const int number : {0, -1, 12, 14, 131, 1'000'000})
    EXPECT_EQ(error_code_of(number), ErrorCode::internal) << number;
}

TEST(EndOfAWorker, IsDescribed) {
  EXPECT_EQ(describe_end(SIGSEGV), "was ended by signal 11 (SIGSEGV)");
  EXPECT_EQ(describe_end(SIGKILL), "was ended by signal 9 (SIGKILL)");
  EXPECT_EQ(describe_end(SIGABRT), "was ended by signal 6 (SIGABRT)");
  EXPECT_EQ(describe_end(3 << 8), "exited with code 3");
}

// --- values
// -----------------------------------------------------------------------------------------------------------

bool same_tensor(const Tensor& left, const Tensor& right) {
  if (left.type() != right.type() || left.shape() != right.shape()) return false;
  if (left.type() == ElementType::string) return std::ranges::equal(left.strings(), right.strings());
  return std::ranges::equal(left.bytes(), right.bytes());
}

bool same_value(const Value& left, const Value& right) {
  if (left.index() != right.index()) return false;
  if (const Tensor* tensor = left.tensor()) return same_tensor(*tensor, *right.tensor());
  if (const Map* map = left.map()) {
    return same_tensor(map->keys, right.map()->keys) && same_tensor(map->values, right.map()->values);
  }
  if (const Sequence* sequence = left.sequence()) {
    return std::ranges::equal(sequence->values, right.sequence()->values, same_value);
  }
  return true;
}

bool same_values(const NamedValues& left, const NamedValues& right) {
  return std::ranges::equal(left, right, [](const NamedValue& one, const NamedValue& other) {
    return one.first == other.first && same_value(one.second, other.second);
  });
}

Sequence sequence_of(std::initializer_list<Value> values) {
  return {std::vector<Value>(values)};
}

NamedValues all_kinds() {
  using namespace std::string_literals;
  const Map animals{Tensor::of_strings({2}, {"dog", ""}), floats({2}, {2, 3})};
  return {{"floats", floats({2, 2}, {1, 2, 3, 4})},
          {"scalar", floats({}, {3})},
          {"empty", floats({0, 5}, {})},
          {"numbers", tensor<std::int64_t>({3}, {1, -2, 3})},
          {"bytes", tensor<std::uint8_t>({3}, {1, 2, 3})},
          {"texts", Tensor::of_strings({2, 2}, {"", "a\0b"s, "ä", std::string(1000, 'x')})},
          {"packed", Tensor::allocate(ElementType::int4, {3})},
          {"nothing", std::monostate{}},
          {"map", animals},
          {"list", sequence_of({floats({1}, {1}), floats({2}, {1, 2})})},
          {"maps", sequence_of({animals, animals})},
          {"none", Sequence()},
          {"deep", sequence_of({sequence_of({floats({1}, {7})})})}};
}

struct Written {
  std::vector<std::byte> memory;
  ValuesPlace place;
};

Written written(const NamedValues& values, const std::vector<std::size_t>& outputs) {
  const EncodedValues encoded = encode_values(values, outputs);
  Written written{.memory = std::vector<std::byte>(encoded.place.bytes), .place = encoded.place};
  write_values(encoded, written.memory.data());
  return written;
}

TEST(ValueEncoding, KeepsEveryKindOfValue) {
  const std::vector<std::size_t> outputs{2, 0};
  const Written whole = written(all_kinds(), outputs);
  const auto copied = read_values(whole.memory, whole.place, nullptr);
  EXPECT_TRUE(same_values(copied.values, all_kinds()));
  EXPECT_EQ(copied.outputs, outputs);
  EXPECT_TRUE(copied.values.front().second.tensor()->has_owner());
}

TEST(ValueEncoding, RefersToTheMemoryWhereItHasAnOwner) {
  const auto [memory, place] = written(all_kinds(), {});
  const auto owner = std::make_shared<int>(1);
  {
    const auto read = read_values(memory, place, owner);
    EXPECT_TRUE(same_values(read.values, all_kinds()));
    const std::byte* data = read.values.front().second.tensor()->bytes().data();
    EXPECT_TRUE(data >= memory.data() && data < memory.data() + memory.size());
    EXPECT_EQ((data - memory.data()) % 64, 0);
    EXPECT_GT(owner.use_count(), 1);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ValueEncoding, LeavesElementsWhereTheyAre) {
  Tensor block = Tensor::allocate(ElementType::uint8, {4096});
  const std::span<std::byte> memory = block.mutable_bytes();
  const std::vector<float> numbers{1, 2, 3};
  std::memcpy(memory.data() + 64, numbers.data(), sizeof(float) * numbers.size());
  const NamedValues values{{"there", Tensor::borrow(ElementType::float32, {3}, memory.subspan(64, 12))},
                           {"elsewhere", floats({2}, {4, 5})}};
  const EncodedValues encoded = encode_values(values, {}, memory, 128);
  ASSERT_EQ(encoded.elements.size(), 1U);
  EXPECT_EQ(encoded.elements.front().offset, 128U);
  ASSERT_LE(encoded.place.bytes, memory.size());
  write_values(encoded, memory.data());
  EXPECT_TRUE(same_values(read_values(memory, encoded.place, nullptr).values, values));
}

// Any bits are a number, but only two of them are booleans.
TEST(ValueEncoding, CorrectsBooleans) {
  auto [memory, place] = written({{"x", tensor<bool>({2}, {false, true})}}, {});
  memory[1] = std::byte{0x80};
  const auto owner = std::make_shared<int>(1);
  const auto read = read_values(memory, place, owner);
  const std::span<const std::byte> elements = read.values.front().second.tensor()->bytes();
  EXPECT_EQ(elements[0], std::byte{0});
  EXPECT_EQ(elements[1], std::byte{1});
  EXPECT_EQ(owner.use_count(), 1) << "the other process could change them later";
}

// A worker that writes wildly costs an error, not this process.
TEST(ValueEncoding, RefusesWhatABrokenProcessWrote) {
  const Written whole = written(all_kinds(), {1});
  const auto refused = [&](const ValuesPlace& place, std::span<const std::byte> memory) {
    try {
      (void)read_values(memory, place, nullptr);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  for (std::size_t size = 0; size < whole.memory.size(); size += 7) {
    EXPECT_TRUE(refused(whole.place, std::span(whole.memory).first(size))) << size;
  }
  for (std::uint64_t size = 0; size < whole.place.head_bytes; ++size) {
    EXPECT_TRUE(refused({.bytes = whole.place.bytes, .head = whole.place.head, .head_bytes = size}, whole.memory));
  }
  for (const std::uint64_t wrong : {std::uint64_t{1} << 31, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_TRUE(refused({.bytes = wrong, .head = whole.place.head, .head_bytes = 8}, whole.memory));
    EXPECT_TRUE(refused({.bytes = whole.place.bytes, .head = wrong, .head_bytes = 8}, whole.memory));
    EXPECT_TRUE(refused({.bytes = whole.place.bytes, .head = 0, .head_bytes = wrong}, whole.memory));
  }
  for (std::size_t i = whole.place.head; i < whole.memory.size(); ++i) {
    for (const int wrong : {0x00, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> broken = whole.memory;
      broken[i] = static_cast<std::byte>(wrong);
      (void)refused(whole.place, broken);
    }
  }
}

NamedValues shaped(std::initializer_list<std::int64_t> shape) {
  return {{"x", Tensor::allocate(ElementType::float32, shape)}};
}

TEST(OutputForms, KnowsThoseOfEarlierRuns) {
  isolation::OutputForms forms;
  const std::vector<std::size_t> one{0}, two{0, 1};
  const NamedValues results{{"y", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"s", Tensor::of_strings({1}, {"text"})}};
  EXPECT_EQ(forms.find(shaped({2}), two), nullptr);
  forms.note(shaped({2}), two, results);
  const isolation::RunForms* found = forms.find(shaped({2}), two);
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ(found->front()->shape, (Shape{2, 3}));
  EXPECT_EQ(found->front()->bytes, 24U);
  EXPECT_FALSE(found->back());
  EXPECT_EQ(forms.find(shaped({3}), two), nullptr);
  EXPECT_EQ(forms.find(shaped({2, 1}), two), nullptr);
  EXPECT_EQ(forms.find(shaped({2}), one), nullptr);
  EXPECT_EQ(forms.find({{"z", floats({2}, {1, 2})}}, two), nullptr) << "another input";
  EXPECT_EQ(forms.find({{"x", tensor<std::int64_t>({2}, {1, 2})}}, two), nullptr) << "another type";
  forms.note({{"x", Sequence()}}, two, results);
  EXPECT_EQ(forms.find({{"x", Sequence()}}, two), nullptr);
  for (std::int64_t size = 3; size < 1000; ++size) forms.note(shaped({size}), two, results);
  EXPECT_NE(forms.find(shaped({999}), two), nullptr);
  EXPECT_EQ(forms.find(shaped({2}), two), nullptr) << "not all are kept";
  forms.give_up();
  EXPECT_EQ(forms.find(shaped({999}), two), nullptr);
  forms.note(shaped({2}), two, results);
  EXPECT_EQ(forms.find(shaped({2}), two), nullptr);
}

TEST(LoadMessage, KeepsTheOptions) {
  LoadOptions options;
  options.provider = "tensorrt,cpu";
  options.provider_from = "--provider";
  options.provider_libraries = {{"example", "/lib/example.so"}};
  options.provider_options = {{"cpu", {{"threads", "2"}}, "gpux.yml:3"}};
  options.strict = Strictness::nodes;
  options.device = 3;
  options.memory_bytes = std::uint64_t{5} << 40;
  options.precision = "int8";
  options.min_cosine = 0.5;
  options.cache_directory = "/cache";
  options.intra_threads = 4;
  options.inter_threads = 2;
  options.optimization = Optimization::layout;
  options.optimized_graphs = {{"/g", "cpu", "1.31", "device", "all", "machine", "options"}};
  options.precision_variants = {
      {.file = "/v", .precision = "int8", .provider = "cpu", .weight_bits = 7, .mean_cosine = 0.25}};
  options.session_config = {{"a", "b"}, {"a", "c"}};
  options.map_weights = true;
  options.before = "/before";
  options.after = "/after";
  options.pooled_output = PooledOutput{.token_vectors = "last_hidden_state",
                                       .attention_mask = "attention_mask",
                                       .poolings = {Pooling::last_token, Pooling::mean},
                                       .normalizes = true};
  options.expected_sizes = {
      {.input = "x", .dimension = 1, .smallest = 2, .tuned = 3, .largest = 4, .from = "somebody"}};
  options.isolation = Isolation::process;
  options.custom_operator_libraries = {"/ops.so"};
  options.sandbox = Sandbox::strict;
  options.cache_precision = CachePrecision::automatic;
  change_facts(options, [](LoadFacts& facts) { facts.crashed_providers = {{"cuda", "it crashed"}}; });
  const WorkerLoad read = worker_load_from(to_json(WorkerLoad{"/a/model.onnx", options, {"/a/model.onnx", "/a/b"}}));
  EXPECT_EQ(read.model, "/a/model.onnx");
  EXPECT_EQ(to_json(WorkerLoad{read.model, read.options, {}}), to_json(WorkerLoad{"/a/model.onnx", options, {}}));
  EXPECT_EQ(read.files, (std::vector<std::filesystem::path>{"/a/model.onnx", "/a/b"}));
  EXPECT_EQ(read.options.custom_operator_libraries, options.custom_operator_libraries);
  EXPECT_EQ(read.options.sandbox, Sandbox::strict);
  EXPECT_EQ(read.options.isolation, Isolation::thread);
  EXPECT_EQ(read.options.memory_bytes, options.memory_bytes);
  EXPECT_EQ(read.options.pooled_output, options.pooled_output);
  ASSERT_EQ(read.options.expected_sizes.size(), 1U);
  EXPECT_EQ(read.options.expected_sizes.front().largest, 4);
  EXPECT_EQ(read.options.expected_sizes.front().from, "somebody");
  EXPECT_EQ(read.options.session_config, options.session_config);
  EXPECT_EQ(read.options.optimized_graphs, options.optimized_graphs);
  EXPECT_EQ(read.options.precision_variants.front().weight_bits, 7U);
  EXPECT_EQ(read.options.before, options.before);
  EXPECT_EQ(read.options.cache_precision, CachePrecision::automatic);
  EXPECT_EQ(facts_of(read.options).crashed_providers, facts_of(options).crashed_providers);
  EXPECT_EQ(worker_load_from(to_json(WorkerLoad{"m", {}, {}})).options.device, std::nullopt);
}

TEST(LoadMessage, KeepsTheReport) {
  LoadReport report;
  report.verdict.requested = "cuda";
  report.verdict.active = {"cpu"};
  report.verdict.tried = {{.id = "cuda",
                           .ort_name = "CUDAExecutionProvider",
                           .outcome = ProviderAttempt::Outcome::failed,
                           .reason = "why",
                           .remedy = {"ask for ", Subject{Subject::Kind::setting, "provider"}, " first"},
                           .devices = {{"gpu", "name", "vendor", 2}},
                           .options = {{"a", "b"}},
                           .node_count = 5,
                           .node_share = 0.5,
                           .other_core = true,
                           .shapes = "x:1..2..4",
                           .shapes_from = "option",
                           .engine_folder = "/engines",
                           .has_kept_engine = true}};
  report.verdict.notes = {Message("a note")};
  report.weights = 2;
  report.computed_by = "text";
  report.output_names = {"y", "z"};
  report.placement = {{"cpu", "node", "domain", "Add"}};
  report.identity = {{"ONNX Runtime", "1.31.1"}};
  report.stored_caches = {.values = {"past", "present"}, .element = ElementType::int8};
  const LoadReport read = load_report_from(to_json(report));
  EXPECT_EQ(read.stored_caches, report.stored_caches);
  report.stored_caches.element = ElementType::string;
  EXPECT_THROW((void)load_report_from(to_json(report)), Error);
  EXPECT_EQ(to_json(read.verdict), to_json(report.verdict));
  EXPECT_EQ(read.verdict.tried.front().remedy, report.verdict.tried.front().remedy) << "with its subject";
  EXPECT_EQ(read.weights, 2U);
  EXPECT_EQ(read.output_names, report.output_names);
  EXPECT_EQ(read.placement.front().operator_type, "Add");
  EXPECT_EQ(read.computed_by, "text");
  EXPECT_EQ(read.identity, report.identity);
  for (const char* wrong : {"", "{}", "[", R"({"verdict": 1})", "\xff"}) {
    EXPECT_THROW((void)load_report_from(wrong), Error) << wrong;
  }
}

// --- runs
// -------------------------------------------------------------------------------------------------------------

LoadOptions in_worker() {
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  options.isolation = Isolation::process;
  return options;
}

LoadOptions in_thread() {
  LoadOptions options = in_worker();
  options.isolation = Isolation::thread;
  return options;
}

class Worker : public CpuRuntime {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    set_worker_program(GPUX_PROGRAM);
  }

  void TearDown() override { set_worker_program({}); }
};

struct Case {
  const char* model;
  NamedValues inputs;
};

std::vector<Case> cases() {
  const Map animals{Tensor::of_strings({2}, {"dog", "eel"}), floats({2}, {2, 3})};
  return {{"add", {{"x", floats({1, 3}, {1, 2, 3})}}},
          {"scalar", {{"x", floats({}, {3})}}},
          {"gather", {{"index", tensor<std::int64_t>({2}, {0, 2})}}},
          {"external_data", {{"x", floats({1, 3}, {1, 1, 1})}}},
          {"scale_default", {{"x", floats({2}, {1, 2})}}},
          {"branch", {{"x", floats({1}, {3})}, {"double", tensor<bool>({}, {true})}}}};
}

TEST_F(Worker, GivesTheResultsOfThisProcess) {
  for (const Case& one : cases()) {
    const Runtime here(test_model(one.model), in_thread());
    const Runtime there(test_model(one.model), in_worker());
    EXPECT_TRUE(same_values(there.infer(one.inputs), here.infer(one.inputs))) << one.model;
    EXPECT_TRUE(there.worker().has_value());
    EXPECT_FALSE(here.worker().has_value());
  }
}

// All models of tests/models that made-up inputs can be given: every element type, strings, sequences, maps, optionals.
TEST_F(Worker, GivesTheResultsOfThisProcessForEveryKindOfValue) {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GPUX_SOURCE_DIR "/tests/models")) {
    if (entry.path().extension() != ".onnx" || entry.path().stem() == "slow") continue;
    std::optional<Runtime> here;
    NamedValues inputs, expected;
    try {
      here.emplace(entry.path(), in_thread());
      inputs = synthetic_inputs(here->info().signature);
      expected = here->infer(inputs);
    } catch (const Error&) {
      continue;
    }
    const Runtime there(entry.path(), in_worker());
    EXPECT_TRUE(same_values(there.infer(inputs), expected)) << entry.path();
    ++compared;
  }
  EXPECT_GE(compared, 35);
}

TEST_F(Worker, GivesTheErrorsOfThisProcess) {
  const auto error_of = [](const std::string& model, const LoadOptions& options, const NamedValues& inputs) {
    try {
      (void)Runtime(test_model(model), options).infer(inputs);
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.message();
    }
    return std::string();
  };
  LoadOptions strict = in_worker();
  strict.provider = "cuda";
  strict.strict = Strictness::provider;
  LoadOptions strict_here = strict;
  strict_here.isolation = Isolation::thread;
  for (const char* model :
       {"opset_too_new", "unknown_operator", "unknown_domain", "external_missing", "no_such_file"}) {
    const std::string expected = error_of(model, in_thread(), {});
    EXPECT_NE(expected, "") << model;
    EXPECT_EQ(error_of(model, in_worker(), {}), expected) << model;
  }
  EXPECT_EQ(error_of("add", strict, {}), error_of("add", strict_here, {}));
  const NamedValues wrong{{"index", tensor<std::int64_t>({1}, {77})}};
  EXPECT_THAT(error_of("gather", in_thread(), wrong), HasSubstr("invalid_input"));
  EXPECT_EQ(error_of("gather", in_worker(), wrong), error_of("gather", in_thread(), wrong));
}

TEST_F(Worker, ReportsWhatThisProcessWould) {
  const Runtime here(test_model("masked_sum"), in_thread());
  const Runtime there(test_model("masked_sum"), in_worker());
  Verdict verdict = there.verdict();
  ASSERT_FALSE(verdict.notes.empty());
  EXPECT_EQ(verdict.notes.back(), "the model runs in a worker process");
  verdict.notes.pop_back();
  EXPECT_EQ(to_json(verdict), to_json(here.verdict()));
  EXPECT_EQ(there.weights_file(), here.weights_file());
  EXPECT_EQ(there.placement().size(), here.placement().size());
  EXPECT_EQ(there.run_sharing().source, here.run_sharing().source);
  const WorkerStatus status = *there.worker();
  EXPECT_EQ(status.state, WorkerStatus::State::ready);
  EXPECT_GT(status.process_id, 0);
  EXPECT_NE(status.process_id, ::getpid());
  EXPECT_EQ(status.restarts, 0U);
}

// Large results are in shared memory, which is not used again while a caller has them.
TEST_F(Worker, KeepsResultsWhileOthersRun) {
  const Runtime there(test_model("identity_float32"), in_worker());
  const auto inputs_of = [&](float value, std::int64_t count) {
    NamedValues inputs = synthetic_inputs(there.info().signature);
    Tensor filled = Tensor::allocate(ElementType::float32, {count});
    std::ranges::fill(filled.mutable_as<float>(), value);
    inputs.front().second = filled;
    return inputs;
  };
  std::vector<NamedValues> kept;
  for (int i = 0; i < 12; ++i) {
    // From what is copied to what is mapped, growing and shrinking.
    kept.push_back(there.infer(inputs_of(static_cast<float>(i), i % 3 == 0 ? 100 : 100'000 + 50'000 * (i % 4))));
    if (i == 5) kept.erase(kept.begin(), kept.begin() + 2);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const float value : kept[i].front().second.tensor()->as<float>()) {
      ASSERT_EQ(value, static_cast<float>(i + 2));
    }
  }
}

// The worker does so in the shared memory.
TEST_F(Worker, WritesOutputsWhereItIsTold) {
  const Runtime here(test_model("identity_float32"), in_thread());
  const runtime::SessionReplica replica(here);
  NamedValues inputs = synthetic_inputs(here.info().signature);
  inputs.front().second = floats({3}, {1, 2, 3});
  ASSERT_TRUE(replica.can_place(0));
  const std::vector<std::size_t> outputs{0};
  const auto run_to = [&](const Shape& shape) {
    const std::vector<std::optional<Tensor>> places{Tensor::allocate(ElementType::float32, shape)};
    runtime::StopHandle handle(runtime::RunPlaces::here);
    const NamedValues results = replica.run(inputs, outputs, handle, places);
    EXPECT_EQ(static_cast<const void*>(results.front().second.tensor()->bytes().data()),
              static_cast<const void*>(places.front()->bytes().data()));
    EXPECT_TRUE(same_tensor(*results.front().second.tensor(), *inputs.front().second.tensor()));
  };
  run_to({3});
  for (const Shape& other : {Shape{2}, Shape{4}, Shape{3, 1}}) EXPECT_THROW(run_to(other), ort::OtherShape);
  run_to({3});
  // What is an input as well is not written.
  const Runtime passing(test_model("pass_through"), in_thread());
  const runtime::SessionReplica other(passing);
  EXPECT_FALSE(other.can_place(0));
  EXPECT_TRUE(other.can_place(1));
  EXPECT_FALSE(other.can_place(2));
}

// Memory is prepared for the shape of the last run with inputs of these sizes, which is another one here.
TEST_F(Worker, GivesOutputsWhoseShapesDependOnValues) {
  const Runtime there(test_model("reshape"), in_worker());
  Tensor numbers = Tensor::allocate(ElementType::float32, {20'000});
  for (std::size_t i = 0; i < 20'000; ++i) numbers.mutable_as<float>()[i] = static_cast<float>(i);
  for (const Shape& shape : {Shape{100, 200}, Shape{100, 200}, Shape{200, 100}, Shape{50, 400}, Shape{100, 200}}) {
    const NamedValues results =
        there.infer({{"x", numbers}, {"shape", tensor<std::int64_t>({2}, {shape[0], shape[1]})}});
    EXPECT_TRUE(
        same_tensor(*results.front().second.tensor(), Tensor::borrow(ElementType::float32, shape, numbers.bytes())));
  }
  EXPECT_EQ(there.worker()->restarts, 0U);
}

TEST_F(Worker, RunsForSeveralThreads) {
  const Runtime there(test_model("add"), in_worker());
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const auto value = static_cast<float>(thread * 1000 + i);
        const NamedValues results = there.infer({{"x", floats({1, 3}, {value, 0, 0})}});
        ASSERT_EQ(results.front().second.tensor()->as<float>().front(), value + 1);
      }
    });
  }
}

TEST_F(Worker, IsReplacedWhenItEnds) {
  for (const int number : {SIGKILL, SIGSEGV, SIGABRT}) {
    const Runtime there(test_model("add"), in_worker());
    const int first = there.worker()->process_id;
    ::kill(first, number);
    ASSERT_TRUE(test::eventually([&] { return there.worker()->restarts == 1; }));
    // It waits for the new worker.
    const NamedValues results = there.infer({{"x", floats({1, 3}, {1, 2, 3})}});
    EXPECT_EQ(results.front().second.tensor()->as<float>().front(), 2);
    const WorkerStatus status = *there.worker();
    EXPECT_EQ(status.state, WorkerStatus::State::ready);
    EXPECT_NE(status.process_id, first);
    EXPECT_EQ(status.last_end, "the worker of 'add' " + describe_end(number));
  }
}

NamedValues iterations(std::int64_t count) {
  return {{"x", Tensor::allocate(ElementType::float32, {16, 16})}, {"iterations", tensor<std::int64_t>({}, {count})}};
}

NamedValues endless() {
  return iterations(2'000'000'000);
}

std::optional<Error> error_of_run(const Runtime& runtime, const NamedValues& inputs, const InferOptions& options) {
  try {
    (void)runtime.infer(inputs, options);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST_F(Worker, StopsARunInProgress) {
  const Runtime there(test_model("slow"), in_worker());
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(200));
    source.request_stop();
  });
  const auto stopped = error_of_run(there, endless(), {.stop = source.get_token()});
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->code(), ErrorCode::interrupted) << stopped->message();
  const auto late = error_of_run(there, endless(), {.timeout = milliseconds(200)});
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->code(), ErrorCode::deadline_exceeded) << late->message();
  EXPECT_FALSE(error_of_run(there, iterations(3), {}));
  EXPECT_EQ(there.worker()->restarts, 0U);
}

/// A thread that runs the model, and waits in the kernel for its worker.
class WaitingRun {
 public:
  WaitingRun(const Runtime& runtime, NamedValues inputs)
      : thread_([this, &runtime, inputs = std::move(inputs)] {
          thread_id_ = ::gettid();
          try {
            results = runtime.infer(inputs);
          } catch (const Error& failure) {
            error = failure;
          }
        }) {}

  // Whether it has sent its run, and waits for the answer.
  [[nodiscard]] bool waits_for_an_answer() const {
    std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/syscall");
    long number = -1;
    file >> number;
    return number == SYS_recvmsg;
  }

  void join() { thread_.join(); }

  NamedValues results;  // after join()
  std::optional<Error> error;

 private:
  std::atomic<int> thread_id_ = 0;
  std::thread thread_;
};

NamedValues three() {
  return {{"x", floats({1, 3}, {1, 2, 3})}};
}

TEST_F(Worker, RepeatsARunThatTheWorkerHadNotTaken) {
  const Runtime there(test_model("add"), in_worker());
  ASSERT_FALSE(error_of_run(there, three(), {}));  // there is a channel
  const int process = there.worker()->process_id;
  ASSERT_TRUE(test::stop_process(process));
  WaitingRun run(there, three());
  EXPECT_TRUE(test::eventually([&] { return run.waits_for_an_answer(); }));
  ::kill(process, SIGKILL);
  run.join();
  ASSERT_FALSE(run.error) << run.error->message();
  EXPECT_EQ(run.results.front().second.tensor()->as<float>().front(), 2);
  const WorkerStatus status = *there.worker();
  EXPECT_EQ(status.restarts, 1U);
  EXPECT_EQ(status.repeated_runs, 1U);
  EXPECT_EQ(status.lost_runs, 0U);
}

TEST_F(Worker, DoesNotRepeatARunWithoutAnotherWorker) {
  LoadOptions options = in_worker();
  options.restart_worker = false;
  const Runtime there(test_model("add"), options);
  ASSERT_FALSE(error_of_run(there, three(), {}));
  const int process = there.worker()->process_id;
  ASSERT_TRUE(test::stop_process(process));
  WaitingRun run(there, three());
  EXPECT_TRUE(test::eventually([&] { return run.waits_for_an_answer(); }));
  ::kill(process, SIGKILL);
  run.join();
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->message(), "the worker of 'add' was ended by signal 9 (SIGKILL)");
  EXPECT_EQ(there.worker()->repeated_runs, 0U);
}

// Its run ends at its deadline, and the worker is killed: nobody waits for a second attempt.
TEST_F(Worker, DoesNotRepeatARunThatWasStopped) {
  LoadOptions options = in_worker();
  options.stop_grace = milliseconds(100);
  const Runtime there(test_model("add"), options);
  ASSERT_FALSE(error_of_run(there, three(), {}));
  ASSERT_TRUE(test::stop_process(there.worker()->process_id));
  const auto late = error_of_run(there, three(), {.timeout = milliseconds(200)});
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->code(), ErrorCode::deadline_exceeded) << late->message();
  EXPECT_TRUE(test::eventually([&] { return there.worker()->restarts == 1; }));
  EXPECT_FALSE(error_of_run(there, three(), {}));
  EXPECT_EQ(there.worker()->repeated_runs, 0U);
  EXPECT_EQ(there.worker()->lost_runs, 0U);
}

// The mark that tells what a worker has begun, without a worker.
TEST(RunChannel, KnowsWhichRunWasTaken) {
  auto [own, others] = isolation::make_socket_pair();
  isolation::SharedMemoryBudget budget;
  isolation::RunChannel channel(1, std::move(own), budget);
  EXPECT_FALSE(channel.has_taken(0)) << "nothing was sent";
  const std::vector<std::size_t> outputs{0};
  ASSERT_TRUE(channel.send(7, three(), outputs));
  EXPECT_FALSE(channel.has_taken(7));
  isolation::ReceivedMessage message;
  ASSERT_TRUE(isolation::receive_message(others.get(), message));
  isolation::SharedBlock block(std::move(message.descriptors.front()));
  isolation::mark_taken(block.bytes(), 7);
  EXPECT_TRUE(channel.has_taken(7));
  EXPECT_FALSE(channel.has_taken(8));
  const auto request = message.as<isolation::RunRequest>();
  const auto read = read_values(block.bytes().subspan(isolation::run_mark_bytes), request->values, nullptr);
  EXPECT_TRUE(same_values(read.values, three()));
  ASSERT_TRUE(channel.send(8, three(), outputs));
  EXPECT_FALSE(channel.has_taken(8)) << "the mark is of the run before";
}

TEST(RunChannel, SendsItsMemoryAgainToAWorkerThatCouldNotTakeIt) {
  auto [own, others] = isolation::make_socket_pair();
  isolation::SharedMemoryBudget budget;
  isolation::RunChannel channel(1, std::move(own), budget);
  isolation::ReceivedMessage message;
  const std::vector<std::size_t> outputs{0};
  const auto descriptors_of = [&](std::uint64_t run) {
    EXPECT_TRUE(channel.send(run, three(), outputs));
    EXPECT_TRUE(isolation::receive_message(others.get(), message));
    const auto request = message.as<isolation::RunRequest>();
    return std::pair<int, int>(request->has_new_input, request->has_new_output);
  };
  const auto answer = [&](std::uint64_t run, bool lacks_memory) {
    const isolation::RunReply reply{.run = run,
                                    .error = static_cast<std::int32_t>(ErrorCode::resource_exhausted),
                                    .lacks_memory = lacks_memory ? 1U : 0U};
    EXPECT_TRUE(isolation::send_with_text(others.get(), reply, "full"));
    EXPECT_THROW((void)channel.receive(run, {}), Error);
  };
  EXPECT_EQ(descriptors_of(1), std::pair(1, 1));
  answer(1, false);
  EXPECT_EQ(descriptors_of(2), std::pair(0, 0));
  answer(2, true);
  EXPECT_EQ(descriptors_of(3), std::pair(1, 1));
  answer(3, false);
  EXPECT_EQ(descriptors_of(4), std::pair(0, 0));
  // A larger block for the results, which the worker could not take.
  EXPECT_TRUE(
      isolation::send_message(others.get(), isolation::RunReply{.run = 4, .values = {}, .wanted_bytes = 1 << 20}));
  answer(4, true);
  EXPECT_TRUE(isolation::receive_message(others.get(), message));
  EXPECT_TRUE(message.as<isolation::RunMemory>());
  EXPECT_EQ(descriptors_of(5), std::pair(1, 1));
}

// In a process of its own, which has no address space left for a while.
TEST_F(Worker, GoesOnAfterARunWithoutMemory) {
  if (test::has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer has the addresses already";
  const Runtime there(test_model("identity_float32"), in_worker());
  NamedValues inputs = synthetic_inputs(there.info().signature);
  const auto run = [&](std::int64_t elements) {
    Tensor numbers = Tensor::allocate(ElementType::float32, {elements});
    inputs.front().second = numbers;
    return there.infer(inputs).front().second.tensor()->element_count();
  };
  EXPECT_EQ(run(3), 3);
  rlimit before{};
  const pid_t worker = there.worker()->process_id;
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, nullptr, &before), 0);
  const rlimit now{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, &now, nullptr), 0);
  // More than fits the memory that is mapped already.
  EXPECT_THROW(run(4'000'000), Error);
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, &before, nullptr), 0);
  for (const std::int64_t elements : {3, 4'000'000}) EXPECT_EQ(run(elements), elements);
  EXPECT_EQ(there.worker()->restarts, 0U);
}

// The same before its first run, for which it has to start a thread.
TEST_F(Worker, GoesOnAfterARunWithoutAThread) {
  if (test::has_sanitizer) GTEST_SKIP() << "sanitizers reserve addresses of their own";
  const Runtime there(test_model("add"), in_worker());
  rlimit before{};
  const pid_t worker = there.worker()->process_id;
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, nullptr, &before), 0);
  const rlimit now{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, &now, nullptr), 0);
  for (int run = 0; run < 3; ++run) {
    const std::optional<Error> error = error_of_run(there, three(), {});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::resource_exhausted) << error->message();
  }
  ASSERT_EQ(::prlimit(worker, RLIMIT_AS, &before, nullptr), 0);
  EXPECT_FALSE(error_of_run(there, three(), {}));
  EXPECT_EQ(there.worker()->process_id, worker);
  EXPECT_EQ(there.worker()->restarts, 0U);
}

TEST(SendMessage, TellsAWorkerThatEndedFromASystemWithoutRoom) {
  using isolation::send_failure;
  using isolation::SendFailure;
  for (const int error : {ENOBUFS, ENOMEM, ETOOMANYREFS, EAGAIN}) EXPECT_EQ(send_failure(error), SendFailure::no_room);
  for (const int error : {EPIPE, ECONNRESET, EBADF, ENOTCONN}) EXPECT_EQ(send_failure(error), SendFailure::closed);
}

TEST(SendMessage, TriesAgainWhereTheSystemHasNoRoom) {
  auto [own, others] = isolation::make_socket_pair();
  isolation::ReceivedMessage message;
  const isolation::RunReply reply{.run = 7};
  failing_sends = 3;
  EXPECT_TRUE(isolation::send_message(own.get(), reply));
  EXPECT_EQ(failing_sends, 0);
  ASSERT_TRUE(isolation::receive_message(others.get(), message));
  EXPECT_EQ(message.as<isolation::RunReply>()->run, 7U);
  failing_sends = 3;
  EXPECT_FALSE(isolation::send_message(own.get(), reply, {}, false)) << "it does not wait";
  failing_sends = 1'000'000;
  EXPECT_THROW((void)isolation::send_message(own.get(), reply), Error);
  failing_sends = 0;
}

// The system has no room for a while: the run fails, the worker and its channel stay as they are.
TEST_F(Worker, OutlivesASystemWithoutRoomForMessages) {
  const Runtime there(test_model("add"), in_worker());
  EXPECT_FALSE(error_of_run(there, three(), {}));
  const int process = there.worker()->process_id;
  failing_sends = 1'000'000;
  const std::optional<Error> error = error_of_run(there, three(), {});
  failing_sends = 0;
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::resource_exhausted);
  EXPECT_FALSE(error_of_run(there, three(), {}));
  EXPECT_EQ(there.worker()->process_id, process);
  EXPECT_EQ(there.worker()->restarts, 0U);
}

TEST_F(Worker, IsLimitedByTheNextRunWhereTheSystemHadNoRoom) {
  const Runtime there(test_model("add"), in_worker());
  sent_limits = 0;
  failing_sends = 1;
  const runtime::SessionReplica replica(there, 0, {}, true, std::make_shared<ort::ComputeTurn>(2));
  EXPECT_EQ(failing_sends, 0);
  EXPECT_EQ(sent_limits, 0);
  for (int run = 0; run < 2; ++run) {
    EXPECT_FALSE(error_of_run(there, three(), {}));
    EXPECT_EQ(sent_limits, 1) << "run " << run;
  }
}

TEST_F(Worker, LosesTheRunInProgressWhenItEnds) {
  const Runtime there(test_model("slow"), in_worker());
  std::jthread killer([&] {
    std::this_thread::sleep_for(milliseconds(300));
    ::kill(there.worker()->process_id, SIGSEGV);
  });
  const auto lost = error_of_run(there, endless(), {});
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->code(), ErrorCode::internal);
  EXPECT_EQ(lost->message(),
            "the worker of 'slow' was ended by signal 11 (SIGSEGV); the runs that it had in progress are lost");
  EXPECT_FALSE(error_of_run(there, iterations(3), {}));
  EXPECT_EQ(there.worker()->lost_runs, 1U);
  EXPECT_EQ(there.worker()->repeated_runs, 0U);
}

// The second end in a row delays the restart, and runs do not wait for that.
TEST_F(Worker, RefusesRunsWhileARestartIsDelayed) {
  const Runtime there(test_model("add"), in_worker());
  for (std::uint64_t ends = 1; ends <= 4; ++ends) {
    ASSERT_TRUE(test::eventually([&] { return there.worker()->state == WorkerStatus::State::ready; }));
    ::kill(there.worker()->process_id, SIGKILL);
    ASSERT_TRUE(test::eventually([&] { return there.worker()->restarts == ends; }));
  }
  const auto refused = error_of_run(there, {{"x", floats({1, 3}, {1, 2, 3})}}, {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code(), ErrorCode::provider_unavailable);
  EXPECT_THAT(refused->message(), HasSubstr("the worker of 'add' was ended by signal 9 (SIGKILL); it is started again "
                                            "in "));
  EXPECT_TRUE(test::eventually([&] { return there.worker()->state == WorkerStatus::State::ready; }));
  EXPECT_FALSE(error_of_run(there, {{"x", floats({1, 3}, {1, 2, 3})}}, {}));
}

TEST_F(Worker, IsRefusedWhereItCannotWork) {
  const auto refusal = [](const LoadOptions& options) {
    try {
      (void)Runtime(test_model("add"), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.message();
    }
    return std::string();
  };
  LoadOptions options = in_worker();
  options.profile = "profile.json";
  EXPECT_EQ(refusal(options), "isolation 'process' does not support a profile of ONNX Runtime; accepted here: thread");
  options = in_worker();
  options.optimized_model = "optimized.onnx";
  EXPECT_THAT(refusal(options), HasSubstr("does not support writing an optimized graph"));
  set_worker_program({});
  EXPECT_THAT(refusal(in_worker()),
              HasSubstr("isolation 'process' requires the gpux program, which is not beside the library of '"));
}

TEST_F(Worker, EndsWithItsModel) {
  int process = 0;
  {
    const Runtime there(test_model("add"), in_worker());
    process = there.worker()->process_id;
    EXPECT_EQ(::kill(process, 0), 0);
  }
  EXPECT_EQ(::kill(process, 0), -1);
}

}  // namespace
}  // namespace gpux
