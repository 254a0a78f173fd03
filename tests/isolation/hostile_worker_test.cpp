// What a worker process answers that has been taken over by what it runs: nothing of it decides over this process.
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpux/error.h"
#include "isolation/error_stream.h"
#include "isolation/load_message.h"
#include "isolation/message_socket.h"
#include "isolation/run_channel.h"
#include "isolation/shared_block.h"
#include "isolation/value_encoding.h"
#include "runtime/cpu_runtime.h"

namespace gpux::isolation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

SignatureEntry entry(const std::string& name, ValueKind kind, ElementType element, std::vector<ValueType> inner = {}) {
  return {.name = name, .type = {.kind = kind, .element = element, .dimensions = {}, .inner = std::move(inner)}};
}

/// "" where the values are read, else the error.
std::string refusal(const NamedValues& values, const std::vector<SignatureEntry>& outputs) {
  const EncodedValues encoded = encode_values(values);
  std::vector<std::byte> memory(encoded.place.bytes);
  write_values(encoded, memory.data());
  ExpectedValues expected;
  for (const SignatureEntry& output : outputs) expected.push_back(&output);
  try {
    (void)read_values(memory, encoded.place, nullptr, &expected);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.message();
  }
  return {};
}

TEST(ExpectedValues, AreOfTheModelsSignature) {
  const std::string other = "a worker process answered with other outputs than the model has";
  const ValueType number{.kind = ValueKind::tensor, .element = ElementType::float32, .dimensions = {}, .inner = {}};
  const ValueType map{.kind = ValueKind::map, .element = ElementType::string, .dimensions = {}, .inner = {number}};
  const SignatureEntry y = entry("y", ValueKind::tensor, ElementType::float32);
  const SignatureEntry list = entry("y", ValueKind::sequence, ElementType::undefined, {number});
  const SignatureEntry maps = entry("y", ValueKind::sequence, ElementType::undefined, {map});
  const SignatureEntry maybe = entry("y", ValueKind::optional, ElementType::undefined, {number});
  const SignatureEntry unknown = entry("y", ValueKind::tensor, ElementType::undefined);
  const Sequence empty, numbers{{floats({1}, {1}), floats({2}, {1, 2})}};
  const Map animals{Tensor::of_strings({1}, {"dog"}), floats({1}, {2})};
  const Map by_number{tensor<std::int64_t>({1}, {1}), floats({1}, {2})};

  struct Row {
    NamedValues values;
    std::vector<SignatureEntry> outputs;
    bool is_read;
  };

  for (const Row& row : std::vector<Row>{{{{"y", floats({2}, {1, 2})}}, {y}, true},
                                         {{{"y", floats({}, {1})}}, {y}, true},
                                         {{{"y", floats({2}, {1, 2})}}, {unknown}, true},
                                         {{{"y", numbers}}, {unknown}, true},
                                         {{{"y", numbers}}, {list}, true},
                                         {{{"y", empty}}, {list}, true},
                                         {{{"y", Sequence{{animals}}}}, {maps}, true},
                                         {{{"y", std::monostate{}}}, {maybe}, true},
                                         {{{"y", floats({1}, {1})}}, {maybe}, true},
                                         {{{"z", floats({2}, {1, 2})}}, {y}, false},
                                         {{}, {y}, false},
                                         {{{"y", floats({1}, {1})}, {"y", floats({1}, {1})}}, {y}, false},
                                         {{{"y", tensor<std::int64_t>({1}, {1})}}, {y}, false},
                                         {{{"y", Tensor::of_strings({1}, {"text"})}}, {y}, false},
                                         {{{"y", empty}}, {y}, false},
                                         {{{"y", animals}}, {y}, false},
                                         {{{"y", std::monostate{}}}, {y}, false},
                                         {{{"y", floats({1}, {1})}}, {list}, false},
                                         {{{"y", Sequence{{empty}}}}, {list}, false},
                                         {{{"y", Sequence{{tensor<std::int64_t>({1}, {1})}}}}, {list}, false},
                                         {{{"y", Sequence{{by_number}}}}, {maps}, false},
                                         {{{"y", numbers}}, {maybe}, false}}) {
    EXPECT_EQ(refusal(row.values, row.outputs), row.is_read ? "" : other);
  }
}

// What is read takes no more than the message that it is read from, whatever that says.
TEST(ValueEncoding, TakesAsManyBytesAsItsValues) {
  Sequence sequence;
  sequence.values.assign(1000, Sequence());
  const EncodedValues encoded = encode_values({{"y", sequence}});
  EXPECT_GE(encoded.place.head_bytes, 1000 * sizeof(Value));
  // The same with ten times as many, as the count claims.
  std::vector<std::byte> memory(encoded.place.bytes);
  write_values(encoded, memory.data());
  std::uint32_t count = 0;
  std::size_t place = encoded.place.head;
  for (; place + sizeof count <= memory.size(); ++place) {
    std::memcpy(&count, memory.data() + place, sizeof count);
    if (count == 1000) break;
  }
  ASSERT_EQ(count, 1000U);
  EXPECT_NO_THROW((void)read_values(memory, encoded.place, nullptr));
  for (const std::uint32_t claimed : {1001U, 10'000U, 4'000'000'000U}) {
    std::memcpy(memory.data() + place, &claimed, sizeof claimed);
    EXPECT_THROW((void)read_values(memory, encoded.place, nullptr), Error) << claimed;
  }
  const EncodedValues texts = encode_values({{"y", Tensor::of_strings({500}, std::vector<std::string>(500))}});
  EXPECT_GE(texts.place.head_bytes, 500 * sizeof(std::string));
}

// Each is copied: many that refer to the same elements would be many times those.
TEST(ValueEncoding, HasEachElementOnce) {
  Tensor block = Tensor::allocate(ElementType::uint8, {4096});
  const std::span<std::byte> memory = block.mutable_bytes();
  const Tensor one = Tensor::borrow(ElementType::boolean, {2048}, memory.first(2048));
  const EncodedValues once = encode_values({{"a", one}}, {}, memory, 2048);
  write_values(once, memory.data());
  EXPECT_NO_THROW((void)read_values(memory, once.place, nullptr));
  const EncodedValues often = encode_values({{"a", one}, {"b", one}, {"c", one}}, {}, memory, 2048);
  write_values(often, memory.data());
  EXPECT_THROW((void)read_values(memory, often.place, nullptr), Error);
}

TEST(Believable, IsWhatThisProcessDoesNotKnowBetter) {
  const std::vector<SignatureEntry> outputs{entry("y", ValueKind::tensor, ElementType::float32),
                                            entry("z", ValueKind::tensor, ElementType::float32)};
  LoadReport report;
  report.output_names = {"y", "z"};
  report.verdict.notes = {Message("sandboxed: Landlock ABI 99, all"), Message("a note"), Message("not sandboxed: x")};
  EXPECT_THAT(believable(report, outputs, false).verdict.notes, ElementsAre("a note"));
  report.output_names = {"y", "z", "pooled"};
  EXPECT_THROW((void)believable(report, outputs, false), Error);
  EXPECT_NO_THROW((void)believable(report, outputs, true));
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{}, {"y"}, {"z", "y"}, {"y", "x"}}) {
    report.output_names = names;
    EXPECT_THROW((void)believable(report, outputs, true), Error);
  }
}

TEST(SharedBlock, KeepsItsSize) {
  const SharedBlock block = SharedBlock::create(100'000);
  EXPECT_GE(block.bytes().size(), 100'000U);
  for (const off_t size : {0, 4096, 1 << 20}) EXPECT_EQ(::ftruncate(block.descriptor(), size), -1) << size;
  EXPECT_EQ(::fcntl(block.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(FileOfText, IsNotWritten) {
  const UniqueFd file = file_of_text("text");
  EXPECT_EQ(text_of_file(file.get()), "text");
  EXPECT_EQ(::pwrite(file.get(), "more", 4, 0), -1);
  EXPECT_EQ(::ftruncate(file.get(), 1 << 20), -1);
}

TEST(SentText, ArrivesWholeOrNotAtAll) {
  const auto no_wait = [] {};
  const std::string text(100'000, 'x');
  {
    auto [here, there] = make_socket_pair();
    std::jthread sender([&, socket = there.get()] { EXPECT_TRUE(send_text(socket, text)); });
    EXPECT_EQ(receive_text(here.get(), text.size(), no_wait), text);
  }
  auto [here, there] = make_socket_pair();
  EXPECT_THROW((void)receive_text(here.get(), 65 * mib, no_wait), Error);
  ASSERT_TRUE(send_text(there.get(), "more than that"));
  EXPECT_THROW((void)receive_text(here.get(), 4, no_wait), Error);
  there.reset();
  EXPECT_EQ(receive_text(here.get(), 4, no_wait), std::nullopt);
}

TEST(WorkersErrors, AreCutBetweenCharacters) {
  auto [here, there] = make_socket_pair();
  const std::string text(max_message_bytes - sizeof(RunReply) - 1, 'x');
  ASSERT_TRUE(send_with_text(there.get(), RunReply{}, text + "\u00e4"));
  ReceivedMessage message;
  ASSERT_TRUE(receive_message(here.get(), message));
  EXPECT_EQ(message.text_after(sizeof(RunReply)), text);
}

TEST(WorkersErrors, HaveNoControlCharacters) {
  EXPECT_EQ(without_control_characters("a\n\tb\x1b[2J\x07\r\x7f\x9cä"), "a\n\tb?[2J???\x9cä");
}

/// A worker that answers a run with as much memory as it is told.
class Worker {
 public:
  explicit Worker(UniqueFd socket) : socket_(std::move(socket)) {}

  // The memory for `bytes`, which it asks for; empty: it was refused.
  std::optional<SharedBlock> ask(std::uint64_t bytes) {
    ReceivedMessage message;
    EXPECT_TRUE(send_message(socket_.get(), RunReply{.run = run_, .values = {}, .wanted_bytes = bytes}));
    EXPECT_TRUE(receive_message(socket_.get(), message));
    EXPECT_EQ(message.as<RunMemory>()->run, run_);
    if (!message.descriptors.front()) return std::nullopt;
    return SharedBlock(std::move(message.descriptors.front()));
  }

  void take_run() {
    ReceivedMessage message;
    ASSERT_TRUE(receive_message(socket_.get(), message));
    run_ = message.as<RunRequest>()->run;
  }

  void answer(SharedBlock& block, const NamedValues& values) const {
    const EncodedValues encoded = encode_values(values);
    write_values(encoded, block.bytes().data());
    EXPECT_TRUE(send_message(socket_.get(), RunReply{.run = run_, .values = encoded.place}));
  }

  void fail() const {
    EXPECT_TRUE(send_with_text(socket_.get(), RunReply{.run = run_, .values = {}, .error = 8}, "no memory"));
  }

 private:
  UniqueFd socket_;
  std::uint64_t run_ = 0;
};

TEST(RunChannel, GivesNoMoreMemoryThanTheBudget) {
  auto [own, others] = make_socket_pair();
  SharedMemoryBudget budget;
  budget.set_limit(16 * mib);
  RunChannel channel(1, std::move(own), budget);
  const SignatureEntry y = entry("y", ValueKind::tensor, ElementType::float32);
  const ExpectedValues expected{&y};
  const std::vector<std::size_t> outputs{0};
  std::uint64_t given = 0;
  std::jthread worker([&, socket = std::move(others)]() mutable {
    Worker hostile(std::move(socket));
    hostile.take_run();
    std::optional<SharedBlock> block = hostile.ask(mib);
    ASSERT_TRUE(block);
    hostile.answer(*block, {{"y", Tensor::allocate(ElementType::float32, {200'000})}});
    hostile.take_run();
    // It keeps all that it gets.
    std::vector<SharedBlock> kept;
    for (int i = 0; i < 100; ++i) {
      std::optional<SharedBlock> more = hostile.ask(4 * mib);
      if (!more) break;
      given += more->bytes().size();
      kept.push_back(*std::move(more));
    }
    EXPECT_FALSE(hostile.ask(~std::uint64_t{0}));
    hostile.fail();
  });
  ASSERT_TRUE(channel.send(1, {{"x", floats({1}, {1})}}, outputs));
  const std::optional<NamedValues> results = channel.receive(1, expected);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->front().second.tensor()->shape(), (Shape{200'000}));
  ASSERT_TRUE(channel.send(2, {{"x", floats({1}, {1})}}, outputs));
  EXPECT_THROW((void)channel.receive(2, expected), Error);
  worker.join();
  EXPECT_LE(given, 16 * mib);
  EXPECT_GE(given, 4 * mib);
}

TEST(SharedMemoryBudget, IsNewInANewWorker) {
  struct Row {
    std::uint64_t taken_before_run, bytes;
    bool has_room;
  };

  constexpr std::uint64_t limit = 1000, first_block = 64;
  for (const Row& row : std::vector<Row>{{500, 600, true},
                                         {1, 936, true},
                                         {1000, 0, true},
                                         {500, 937, false},
                                         {500, ~std::uint64_t{0}, false},
                                         // This one was new.
                                         {0, 600, false},
                                         {0, 0, false}}) {
    EXPECT_EQ(has_room_in_new_worker(limit, row.taken_before_run, first_block, row.bytes), row.has_room)
        << row.taken_before_run << ", " << row.bytes;
  }
  EXPECT_FALSE(has_room_in_new_worker(63, 10, first_block, 0));
}

// What earlier runs took stays taken: only a new worker has room for these results.
TEST(RunChannel, TellsResultsThatFitANewWorkerFromTooLargeOnes) {
  auto [own, others] = make_socket_pair();
  SharedMemoryBudget budget;
  budget.set_limit(16 * mib);
  RunChannel channel(1, std::move(own), budget);
  const SignatureEntry y = entry("y", ValueKind::tensor, ElementType::float32);
  const ExpectedValues expected{&y};
  const std::vector<std::size_t> outputs{0};
  const std::vector<std::uint64_t> wishes{17 * mib, 8 * mib, 10 * mib, 17 * mib};
  std::jthread worker([&, socket = std::move(others)]() mutable {
    Worker honest(std::move(socket));
    for (const std::uint64_t bytes : wishes) {
      honest.take_run();
      std::optional<SharedBlock> block = honest.ask(bytes);
      EXPECT_EQ(block.has_value(), bytes == 8 * mib);
      if (block) {
        honest.answer(*block, {{"y", floats({1}, {1})}});
      } else {
        honest.fail();
      }
    }
    honest.take_run();
    honest.fail();
  });
  const auto outcome_of = [&](std::uint64_t run) -> std::string {
    EXPECT_TRUE(channel.send(run, {{"x", floats({1}, {1})}}, outputs));
    try {
      return channel.receive(run, expected) ? "results" : "ended";
    } catch (const ResultsRefused& refusal) {
      EXPECT_EQ(refusal.code(), ErrorCode::resource_exhausted);
      return refusal.fit_new_worker() ? "fit a new worker" : "fit none";
    } catch (const Error&) {
      return "another error";
    }
  };
  EXPECT_EQ(outcome_of(1), "fit none");
  EXPECT_EQ(outcome_of(2), "results");
  EXPECT_EQ(outcome_of(3), "fit a new worker");
  EXPECT_EQ(outcome_of(4), "fit none");
  EXPECT_EQ(outcome_of(5), "another error") << "no memory was refused to this run";
}

// Somebody keeps the results of all runs, for which the worker gets `blocks` blocks of 1 MiB, the last of them again
// and again: each must keep its own values.
void expect_results_are_kept(std::uint64_t budget_bytes, int runs, int blocks) {
  auto [own, others] = make_socket_pair();
  SharedMemoryBudget budget;
  budget.set_limit(budget_bytes);
  RunChannel channel(1, std::move(own), budget);
  const SignatureEntry y = entry("y", ValueKind::tensor, ElementType::float32);
  const ExpectedValues expected{&y};
  const std::vector<std::size_t> outputs{0};
  std::jthread worker([&, socket = std::move(others)]() mutable {
    Worker honest(std::move(socket));
    std::optional<SharedBlock> last;
    for (int run = 1; run <= runs; ++run) {
      honest.take_run();
      if (run <= blocks) last = honest.ask(mib);
      ASSERT_TRUE(last);
      Tensor result = Tensor::allocate(ElementType::float32, {200'000});
      result.mutable_as<float>().front() = static_cast<float>(run);
      honest.answer(*last, {{"y", result}});
    }
  });
  std::vector<NamedValues> kept;
  for (int run = 1; run <= runs; ++run) {
    ASSERT_TRUE(channel.send(static_cast<std::uint64_t>(run), {{"x", floats({1}, {1})}}, outputs));
    std::optional<NamedValues> results = channel.receive(static_cast<std::uint64_t>(run), expected);
    ASSERT_TRUE(results);
    kept.push_back(*std::move(results));
  }
  for (int run = 1; run <= runs; ++run) {
    EXPECT_EQ(kept[static_cast<std::size_t>(run) - 1].front().second.tensor()->as<float>().front(), run);
  }
}

// The next run takes their block.
TEST(RunChannel, CopiesResultsWhereTheBudgetHasNoRoomForMore) {
  expect_results_are_kept(2 * mib, 3, 1);
}

// However many results somebody keeps, the channel takes a few blocks for them.
TEST(RunChannel, CopiesResultsWhereItsBlocksAreInUse) {
  expect_results_are_kept(16 * mib, 40, static_cast<int>(max_output_blocks));
}

TEST(RunChannel, IsNotUsedAgainWhereTheWorkerHasNoThreadForIt) {
  auto [own, others] = make_socket_pair();
  SharedMemoryBudget budget;
  RunChannel channel(1, std::move(own), budget);
  const std::vector<std::size_t> outputs{0};
  const auto error_of = [&](std::uint64_t run, std::uint64_t answered) -> std::string {
    EXPECT_TRUE(channel.send(run, {{"x", floats({1}, {1})}}, outputs));
    EXPECT_TRUE(send_with_text(others.get(), RunReply{.run = answered, .values = {}, .error = 8}, "none left"));
    try {
      (void)channel.receive(run, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(error_of(1, 1), "none left");
  EXPECT_TRUE(channel.is_served());
  EXPECT_EQ(error_of(2, no_run), "none left");
  EXPECT_FALSE(channel.is_served());
}

}  // namespace
}  // namespace gpux::isolation
