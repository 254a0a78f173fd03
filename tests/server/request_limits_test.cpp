#include "server/requests/request_limits.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "server/requests/limits_file.h"

namespace gpux::server {
namespace {

using Clock = Bucket::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const Clock::time_point start = Clock::time_point(std::chrono::hours(1000));

TEST(RequestLimits, FillUpEvenly) {
  // What was taken when, and what the decision is at which time.
  struct Step {
    milliseconds at;
    double taken;                         // of requests, before the decision
    std::optional<milliseconds> waiting;  // empty: accepted
  };

  struct Case {
    const char* name;
    std::uint64_t per_minute;
    std::vector<Step> steps;
  };

  for (const Case& one : std::vector<Case>{
           {"no limit", 0, {{seconds(0), 1000, {}}}},
           {"one of a burst", 60, {{seconds(0), 59, {}}}},
           {"all of a burst", 60, {{seconds(0), 60, seconds(1)}}},
           {"filled up in part", 60, {{seconds(0), 60, seconds(1)}, {milliseconds(400), 0, milliseconds(600)}}},
           {"filled up for one", 60, {{seconds(0), 60, seconds(1)}, {seconds(1), 0, {}}, {seconds(1), 1, seconds(1)}}},
           {"never more than the limit", 60, {{seconds(0), 1, {}}, {seconds(3600), 60, seconds(1)}}},
           {"beyond the limit", 60, {{seconds(0), 90, seconds(31)}, {seconds(31), 0, {}}}},
           {"slow", 1, {{seconds(0), 1, seconds(60)}, {seconds(59), 0, seconds(1)}, {seconds(60), 0, {}}}},
       }) {
    SCOPED_TRACE(one.name);
    ClientUse use;
    for (const Step& step : one.steps) {
      const Clock::time_point now = start + step.at;
      if (step.taken > 0) use.requests.take(step.taken, now, one.per_minute, seconds(60));
      const auto refusal = limit_refusal(use, {.requests_per_minute = one.per_minute}, now);
      ASSERT_EQ(refusal.has_value(), step.waiting.has_value());
      if (refusal) {
        EXPECT_EQ(refusal->wait, *step.waiting);
      }
    }
  }
}

TEST(RequestLimits, NameTheOneThatTakesLongest) {
  const RequestLimits limits{
      .requests_per_minute = 2, .tokens_per_minute = 100, .tokens_per_day = 1000, .requests_in_flight = 3};

  struct Case {
    double requests, minute_tokens, day_tokens;
    std::uint64_t in_flight;
    std::optional<LimitKind> kind;
    std::uint64_t accepted;
  };

  for (const Case& one : std::vector<Case>{
           {0, 0, 0, 0, {}, 0},
           {1, 99, 999, 2, {}, 0},
           {2, 0, 0, 0, LimitKind::requests_per_minute, 2},
           {0, 100, 0, 0, LimitKind::tokens_per_minute, 100},
           {0, 0, 1000, 0, LimitKind::tokens_per_day, 1000},
           {0, 0, 0, 3, LimitKind::requests_in_flight, 3},
           {2, 100, 0, 0, LimitKind::requests_per_minute, 2},
           {2, 200, 0, 0, LimitKind::tokens_per_minute, 100},
           {2, 200, 1000, 0, LimitKind::tokens_per_day, 1000},
           {2, 200, 1000, 3, LimitKind::requests_in_flight, 3},
       }) {
    SCOPED_TRACE(testing::Message() << one.requests << " " << one.minute_tokens << " " << one.day_tokens);
    ClientUse use;
    use.requests.take(one.requests, start, limits.requests_per_minute, seconds(60));
    use.minute_tokens.take(one.minute_tokens, start, limits.tokens_per_minute, seconds(60));
    use.day_tokens.take(one.day_tokens, start, limits.tokens_per_day, seconds(86400));
    use.in_flight = one.in_flight;
    const auto refusal = limit_refusal(use, limits, start);
    ASSERT_EQ(refusal.has_value(), one.kind.has_value());
    if (!refusal) continue;
    EXPECT_EQ(refusal->limit, *one.kind);
    EXPECT_EQ(refusal->accepted, one.accepted);
    EXPECT_GE(retry_after(*refusal), seconds(1));
  }
}

TEST(RequestLimits, OfAnAddressAreThoseOfItsNetwork) {
  for (const auto& [address, client] :
       {std::pair("127.0.0.1", "127.0.0.1"), std::pair("unix", "unix"),
        std::pair("[2001:db8:1:2:3:4:5:6]", "[2001:db8:1:2::]/64"),
        std::pair("[2001:db8:1:2::9]", "[2001:db8:1:2::]/64"), std::pair("[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]"),
        std::pair("[no address]", "[no address]")}) {
    EXPECT_EQ(limited_address(address), client);
  }
}

Caller key(const std::string& name) {
  Caller caller;
  caller.key = name;
  return caller;
}

Caller address(const std::string& text) {
  Caller caller;
  caller.address = text;
  return caller;
}

LimitRules each(const RequestLimits& limits) {
  LimitRules rules;
  rules.each = limits;
  return rules;
}

TEST(RequestLimiter, CountsByTheNameOfTheKey) {
  const auto limiter = std::make_shared<RequestLimiter>();
  LimitRules rules = each({.requests_per_minute = 1});
  rules.by_key["bob"] = {.requests_per_minute = 2};
  EXPECT_FALSE(limiter->admit(key("alice"), rules, start));
  EXPECT_TRUE(limiter->admit(key("alice"), rules, start));
  EXPECT_FALSE(limiter->admit(key("bob"), rules, start));
  EXPECT_FALSE(limiter->admit(key("bob"), rules, start));
  EXPECT_TRUE(limiter->admit(key("bob"), rules, start));
  EXPECT_FALSE(limiter->admit(address("10.0.0.1"), rules, start));
  EXPECT_TRUE(limiter->admit(address("10.0.0.1"), rules, start));
  EXPECT_FALSE(limiter->admit(address("10.0.0.2"), rules, start));
  EXPECT_FALSE(limiter->admit(key("alice"), rules, start + seconds(60)));
  const auto counts = limiter->counts();
  EXPECT_EQ(counts.at("alice").requests, 2U);
  EXPECT_EQ(counts.at("alice").refused.at(0), 1U);
  EXPECT_EQ(counts.at("bob").requests, 2U);
  EXPECT_EQ(counts.at("anonymous").requests, 2U);
  EXPECT_EQ(counts.at("anonymous").refused.at(0), 1U);
  limiter->keep_keys({"bob"});
  EXPECT_FALSE(limiter->counts().contains("alice"));
  EXPECT_TRUE(limiter->counts().contains("bob"));
}

TEST(RequestLimiter, RemembersABoundedNumberOfCertificates) {
  const auto limiter = std::make_shared<RequestLimiter>(std::size_t{100}, std::size_t{3});
  const LimitRules rules = each({.requests_per_minute = 1});
  for (const char* name : {"cert:a", "cert:b", "cert:c"}) EXPECT_FALSE(limiter->admit(key(name), rules, start));
  limiter->keep_keys({});
  EXPECT_TRUE(limiter->admit(key("cert:a"), rules, start)) << "what it has sent is not forgotten";
  EXPECT_EQ(limiter->counts().at("cert:b").requests, 1U) << "though it is idle";
  EXPECT_FALSE(limiter->admit(key("cert:d"), rules, start));
  EXPECT_TRUE(limiter->admit(key("cert:e"), rules, start)) << "those beyond share the limits of one";
  EXPECT_EQ(limiter->counts().at("cert:").requests, 1U);
  // Those whose limits are full again make room.
  EXPECT_FALSE(limiter->admit(key("cert:d"), rules, start + seconds(120)));
  EXPECT_FALSE(limiter->admit(key("cert:e"), rules, start + seconds(120)));
  EXPECT_FALSE(limiter->counts().contains("cert:a"));
}

TEST(RequestLimiter, RefusesAfterTheTokensAreUsedUp) {
  const auto limiter = std::make_shared<RequestLimiter>();
  const LimitRules rules = each({.tokens_per_minute = 60});
  std::optional<LimitRefusal> refusal;
  const auto request = limiter->begin(key("alice"), rules, refusal);
  ASSERT_NE(request, nullptr);
  request->add_tokens(59, start);
  EXPECT_FALSE(limiter->admit(key("alice"), rules, start));
  request->add_tokens(31, start);
  refusal = limiter->admit(key("alice"), rules, start);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->wait, seconds(31));
  EXPECT_THAT(message_of(*refusal, key("alice")), HasSubstr("'alice' may use 60 tokens per minute: retry in 31 s"));
  EXPECT_FALSE(limiter->admit(key("alice"), rules, start + seconds(31)));
  EXPECT_EQ(limiter->counts().at("alice").tokens, 90U);

  http::Headers headers;
  request->add_headers(headers, start);
  EXPECT_EQ(headers["x-ratelimit-limit-tokens"], "60");
  EXPECT_EQ(headers["x-ratelimit-remaining-tokens"], "0");
  EXPECT_EQ(headers["x-ratelimit-reset-tokens"], "1m30s");
  EXPECT_FALSE(headers.find("x-ratelimit-limit-requests"));
}

TEST(RequestLimiter, CountsRequestsInFlightUntilTheyEnd) {
  const auto limiter = std::make_shared<RequestLimiter>();
  const LimitRules rules = each({.requests_in_flight = 2});
  std::optional<LimitRefusal> refusal;
  const auto one = limiter->begin(key("alice"), rules, refusal);
  {
    const auto two = limiter->begin(key("alice"), rules, refusal);
    ASSERT_NE(two, nullptr);
    EXPECT_EQ(limiter->begin(key("alice"), rules, refusal), nullptr);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->limit, LimitKind::requests_in_flight);
    EXPECT_TRUE(limiter->admit(key("alice"), rules, start)) << "before its body is read";
    EXPECT_NE(limiter->begin(key("bob"), rules, refusal), nullptr);
  }
  EXPECT_EQ(limiter->counts().at("alice").in_flight, 1U);
  one->end();
  one->end();
  EXPECT_EQ(limiter->counts().at("alice").in_flight, 0U);
  EXPECT_FALSE(limiter->admit(key("alice"), rules, start));
}

TEST(RequestLimiter, RemembersABoundedNumberOfAddresses) {
  const auto limiter = std::make_shared<RequestLimiter>(100);
  const LimitRules rules = each({.requests_per_minute = 2});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(limiter->admit(address("10.0.0." + std::to_string(i)), rules, start));
  // Those beyond share the limits of one: who takes many addresses gets no more.
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    accepted += limiter->admit(address("10.1.0." + std::to_string(i)), rules, start) ? 0 : 1;
  }
  EXPECT_EQ(accepted, 2);
  EXPECT_EQ(limiter->addresses(), 100U);
  // The others are as before.
  EXPECT_FALSE(limiter->admit(address("10.0.0.7"), rules, start));
  EXPECT_TRUE(limiter->admit(address("10.0.0.7"), rules, start));
  // Once their limits are full again, they make room.
  EXPECT_FALSE(limiter->admit(address("10.2.0.1"), rules, start + seconds(120)));
  EXPECT_EQ(limiter->addresses(), 1U);
  EXPECT_EQ(limiter->counts().at("anonymous").requests, 104U);
}

TEST(RequestLimiter, CountsNobodyWithoutAKeyAndALimit) {
  const auto limiter = std::make_shared<RequestLimiter>();
  std::optional<LimitRefusal> refusal;
  EXPECT_EQ(limiter->begin(address("10.0.0.1"), {}, refusal), nullptr);
  EXPECT_FALSE(refusal);
  EXPECT_FALSE(limiter->admit(address("10.0.0.1"), {}, start));
  EXPECT_EQ(limiter->addresses(), 0U);
  EXPECT_TRUE(limiter->counts().empty());
}

TEST(LimitsFile, OfAKeyBeginWithTheDefault) {
  const LimitRules rules = parse_limits_file(
      "default: {requests_per_minute: 60, tokens_per_day: 1000}\n"
      "keys:\n"
      "  alice: {requests_per_minute: 0, requests_in_flight: 4}\n"
      "  bob: 600\n",
      "limits.yml");
  EXPECT_EQ(rules.each, (RequestLimits{.requests_per_minute = 60, .tokens_per_day = 1000}));
  EXPECT_EQ(rules.of(key("alice")), (RequestLimits{.tokens_per_day = 1000, .requests_in_flight = 4}));
  EXPECT_EQ(rules.of(key("bob")), (RequestLimits{.requests_per_minute = 600, .tokens_per_day = 1000}));
  EXPECT_EQ(rules.of(key("carol")), rules.each);
  EXPECT_EQ(rules.of(address("bob")), rules.each);
}

TEST(LimitsFile, NamesWhatIsWrong) {
  for (const auto& [text, words] :
       {std::pair("default: {requests_per_hour: 1}", "requests_per_hour"),
        std::pair("default: {tokens_per_day: -1}", "a whole number from 0"),
        std::pair("keys: {alice: {requests_in_flight: many}}", "keys.alice.requests_in_flight"),
        std::pair("each: {}", "each")}) {
    try {
      (void)parse_limits_file(text, "limits.yml");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace gpux::server
