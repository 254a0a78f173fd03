// Responses that are kept: for whom, how many, how large, and how long.
#include "server/protocols/response_store.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using Clock = ResponseStore::Clock;

const ResponseOwner nobody, first_key = "first", second_key = "second";

std::shared_ptr<const ConversationItem> item(const std::string& id, std::size_t bytes = 10,
                                             const std::shared_ptr<MemoryBudget>& memory = nullptr) {
  return std::make_shared<const ConversationItem>(
      id, "{}", ChatMessage{.role = "user", .content = std::string(bytes, 'a')}, MemoryShare(memory));
}

StoredResponse response(const std::string& id, ConversationItems items = {}, std::size_t input_items = 0) {
  return {.id = id, .json = R"({"id":")" + id + "\"}", .items = std::move(items), .input_items = input_items};
}

TEST(ResponseStore, KeepsResponsesForTheirOwners) {
  ResponseStore store({}, nullptr);
  ASSERT_TRUE(store.keep(first_key, response("a", {item("in"), item("out")}, 1)));
  ASSERT_TRUE(store.keep(nobody, response("b")));
  ASSERT_NE(store.find(first_key, "a"), nullptr);
  EXPECT_EQ(store.find(first_key, "a")->json, R"({"id":"a"})");
  EXPECT_EQ(store.find(second_key, "a"), nullptr);
  EXPECT_EQ(store.find(nobody, "a"), nullptr);
  EXPECT_NE(store.find(nobody, "b"), nullptr);
  EXPECT_EQ(store.find(first_key, "b"), nullptr);
  // Of the output, whose ids the server made.
  EXPECT_NE(store.find_item(first_key, "out"), nullptr);
  EXPECT_EQ(store.find_item(second_key, "out"), nullptr);
  EXPECT_EQ(store.find_item(first_key, "in"), nullptr);
  EXPECT_FALSE(store.erase(second_key, "a"));
  EXPECT_TRUE(store.erase(first_key, "a"));
  EXPECT_FALSE(store.erase(first_key, "a"));
  EXPECT_EQ(store.find(first_key, "a"), nullptr);
  EXPECT_EQ(store.find_item(first_key, "out"), nullptr);
}

TEST(ResponseStore, KeepsItemsAsLongAsAResponseHasThem) {
  ResponseStore store({}, nullptr);
  const auto shared = item("out", 1000);
  ASSERT_TRUE(store.keep(nobody, response("a", {shared}, 0)));
  const std::uint64_t of_one = store.bytes();
  ASSERT_TRUE(store.keep(nobody, response("b", {store.find(nobody, "a")->items.front(), item("more")}, 1)));
  EXPECT_LT(store.bytes(), 2 * of_one) << "it is there once";
  ASSERT_TRUE(store.erase(nobody, "a"));
  EXPECT_NE(store.find_item(nobody, "out"), nullptr);
  ASSERT_TRUE(store.erase(nobody, "b"));
}

TEST(ResponseStore, ForgetsTheOldestBeyondItsNumber) {
  ResponseStore store({.max_responses = 2}, nullptr);
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store.keep(nobody, response(id)));
  EXPECT_EQ(store.count(), 2U);
  EXPECT_EQ(store.find(nobody, "a"), nullptr);
  EXPECT_NE(store.find(nobody, "b"), nullptr);
  EXPECT_NE(store.find(nobody, "c"), nullptr);
  ResponseStore none({.max_responses = 0}, nullptr);
  EXPECT_FALSE(none.keep(nobody, response("a")));
  ResponseStore no_time({.time_to_live = std::chrono::milliseconds(0)}, nullptr);
  EXPECT_FALSE(no_time.keep(nobody, response("a")));
}

// Who sends many requests forgets its own responses first.
TEST(ResponseStore, MakesRoomOfTheOwnerWithTheMost) {
  ResponseStore store({.max_responses = 3}, nullptr);
  ASSERT_TRUE(store.keep(first_key, response("mine")));
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE(store.keep(second_key, response(id)));
  EXPECT_NE(store.find(first_key, "mine"), nullptr);
  EXPECT_EQ(store.find(second_key, "b"), nullptr);
  EXPECT_NE(store.find(second_key, "d"), nullptr);
}

TEST(ResponseStore, ForgetsWhatIsTooOld) {
  ResponseStore store({.time_to_live = std::chrono::seconds(10)}, nullptr);
  const Clock::time_point start;
  ASSERT_TRUE(store.keep(nobody, response("a"), start));
  ASSERT_TRUE(store.keep(nobody, response("b"), start + std::chrono::seconds(5)));
  EXPECT_NE(store.find(nobody, "a", start + std::chrono::seconds(9)), nullptr);
  EXPECT_EQ(store.find(nobody, "a", start + std::chrono::seconds(10)), nullptr);
  EXPECT_NE(store.find(nobody, "b", start + std::chrono::seconds(10)), nullptr);
  EXPECT_EQ(store.count(), 1U);
}

// Also where nobody asks for them.
TEST(ResponseStore, ForgetsInTime) {
  std::vector<std::pair<Clock::time_point, std::function<void()>>> calls;
  ResponseStore store({.time_to_live = std::chrono::milliseconds(1)}, nullptr,
                      [&](auto when, std::function<void()> call) { calls.emplace_back(when, std::move(call)); });
  const Clock::time_point start = Clock::now() - std::chrono::hours(1);
  ASSERT_TRUE(store.keep(nobody, response("a"), start));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].first, start + std::chrono::milliseconds(1));
  ASSERT_TRUE(store.keep(nobody, response("b", {item("out")}, 0), Clock::now() + std::chrono::hours(1)));
  EXPECT_EQ(calls.size(), 1U) << "one at a time";
  EXPECT_EQ(store.count(), 1U) << "a is too old then";
  calls[0].second();
  EXPECT_EQ(store.count(), 1U);
  ASSERT_EQ(calls.size(), 2U) << "for b";
  EXPECT_TRUE(store.erase(nobody, "b"));
  calls[1].second();
  EXPECT_EQ(calls.size(), 2U) << "there is none";
}

TEST(ResponseStore, StaysWithinItsBytes) {
  ResponseStore store({.max_bytes = 20'000}, nullptr);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store.keep(nobody, response(std::to_string(i), {item(std::to_string(i), 5000)}, 0)));
    EXPECT_LE(store.bytes(), 20'000U);
  }
  EXPECT_NE(store.find(nobody, "9"), nullptr);
  EXPECT_LE(store.count(), 3U);
  EXPECT_FALSE(store.keep(nobody, response("large", {item("large", 30'000)}, 0)));
  EXPECT_NE(store.find(nobody, "9"), nullptr) << "it pushes out no other";
  EXPECT_EQ(store.find(nobody, "large"), nullptr);
}

// Of the memory for requests it takes an eighth, and gives it back.
TEST(ResponseStore, TakesItsMemoryFromThatOfRequests) {
  const auto memory = std::make_shared<MemoryBudget>(80'000);
  std::uint64_t kept = 0;
  {
    ResponseStore store({}, memory);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(store.keep(nobody, response(std::to_string(i), {item(std::to_string(i), 2000, memory)}, 0)));
    }
    EXPECT_LE(store.bytes(), 10'000U);
    EXPECT_LE(memory->held_bytes(), 10'000U);
    EXPECT_GE(memory->held_bytes(), store.bytes());
    kept = memory->held_bytes();
    ASSERT_TRUE(memory->take(memory->limit_bytes() - kept));
    EXPECT_THROW((void)item("more", 10, memory), Error) << "no memory is left";
    EXPECT_FALSE(store.keep(nobody, response("more")));
    EXPECT_NE(store.find(nobody, "9"), nullptr) << "it pushes out no other";
  }
  EXPECT_EQ(memory->held_bytes(), memory->limit_bytes() - kept);
}

}  // namespace
}  // namespace gpux::server
