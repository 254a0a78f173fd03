#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vector_store/qdrant/messages.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

TEST(Qdrant, IdsAreUuids) {
  EXPECT_EQ(point_uuid("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
            "01234567-89ab-8def-8123-456789abcdef");
  EXPECT_EQ(point_uuid("ffffffffffffffffffffffffffffffff"), "ffffffff-ffff-8fff-afff-ffffffffffff");
}

TEST(Qdrant, CollectionsHaveNamedVectors) {
  EXPECT_EQ(collection_body({.dimension = 3, .distance = Similarity::euclidean}),
            Json::parse(R"({"vectors": {"dense": {"size": 3, "distance": "Euclid"}}})"));
  EXPECT_EQ(
      collection_body({.dimension = 3, .sparse_dimension = 9}),
      Json::parse(R"({"vectors": {"dense": {"size": 3, "distance": "Cosine"}}, "sparse_vectors": {"sparse": {}}})"));
}

TEST(Qdrant, PointsHaveTheirTextAndPayload) {
  const Point point{.id = "0123456789abcdef0123456789abcdef",
                    .vector = {0.5F},
                    .sparse = {{4}, {2}},
                    .text = "t",
                    .payload = {{"a", 1}}};
  EXPECT_EQ(point_body(point, true), Json::parse(R"({"id": "01234567-89ab-8def-8123-456789abcdef",
    "vector": {"dense": [0.5], "sparse": {"indices": [4], "values": [2.0]}},
    "payload": {"id": "0123456789abcdef0123456789abcdef", "text": "t", "payload": {"a": 1}}})"));
}

TEST(Qdrant, FiltersAreConditionsOnThePayload) {
  const std::pair<const char*, const char*> table[]{
      {"a=x", R"({"must": [{"key": "payload.a", "match": {"value": "x"}}]})"},
      {"a.b=3", R"({"must": [{"key": "payload.a.b", "range": {"gte": 3, "lte": 3}}]})"},
      {"a=9007199254740993", R"({"must": [{"key": "payload.a", "match": {"value": 9007199254740993}}]})"},
      {"a-b.c d=true", R"({"must": [{"key": "payload.\"a-b\".\"c d\"", "match": {"value": true}}]})"},
      {"a=1.5", R"({"must": [{"key": "payload.a", "range": {"gte": 1.5, "lte": 1.5}}]})"},
      {"a=null", R"({"must": [{"is_null": {"key": "payload.a"}}]})"},
  };
  for (const auto& [text, body] : table) EXPECT_EQ(filter_body({parse_condition(text)}), Json::parse(body)) << text;
  EXPECT_THROW((void)filter_body({parse_condition("a\"=1")}), Error);
}

TEST(Qdrant, QueriesNameTheVector) {
  EXPECT_EQ(query_body({.vector = {1}, .count = 5, .is_exact = true}),
            Json::parse(
                R"({"query": [1.0], "using": "dense", "limit": 5, "with_payload": true, "params": {"exact": true}})"));
  EXPECT_EQ(
      query_body({.sparse = {{2}, {1}}, .count = 5}),
      Json::parse(
          R"({"query": {"indices": [2], "values": [1.0]}, "using": "sparse", "limit": 5, "with_payload": true})"));
}

TEST(Qdrant, DistancesBecomeScoresThatAreHigherWhereNearer) {
  const Json answer = Json::parse(R"({"result": {"points": [{"id": "u", "version": 1, "score": 2.5,
    "payload": {"id": "h", "text": "t", "payload": {"a": 1}}}]}})");
  EXPECT_EQ(found_points(answer, Similarity::euclidean, "x").front().score, -2.5);
  const FoundPoint found = found_points(answer, Similarity::cosine, "x").front();
  EXPECT_EQ(found.score, 2.5);
  EXPECT_EQ(found.id, "h");
  EXPECT_EQ(found.text, "t");
  EXPECT_EQ(found.payload, (Json{{"a", 1}}));
  for (const char* wrong : {"{}", R"({"result": []})", R"({"result": {"points": [{"score": "x"}]}})",
                            R"({"result": {"points": [{"score": 1, "payload": null}]}})"}) {
    EXPECT_THROW((void)found_points(Json::parse(wrong), Similarity::cosine, "x"), Error) << wrong;
  }
}

TEST(Qdrant, ErrorsAreOneLine) {
  const Error wrong = qdrant_error(400, R"({"status": {"error": "Wrong input:\nvector"}, "time": 0})", "qdrant://h/c");
  EXPECT_EQ(wrong.message(), "'qdrant://h/c': Qdrant answered 400: Wrong input: vector");
  EXPECT_EQ(wrong.code(), ErrorCode::invalid_input);
  EXPECT_EQ(qdrant_error(403, "Invalid API key", "x").code(), ErrorCode::permission);
  EXPECT_THAT(qdrant_error(401, "", "x").message(), HasSubstr("QDRANT_API_KEY"));
  EXPECT_EQ(qdrant_error(500, "{}", "x").code(), ErrorCode::network);
}

}  // namespace
}  // namespace gpux::vector_store
