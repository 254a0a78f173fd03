#include "daemon/event_features.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/vector_folder.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using testing::HasSubstr;

// The numbers that are not 0, by their index.
std::map<std::size_t, float> set_in(const std::vector<float>& features) {
  std::map<std::size_t, float> set;
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i] != 0) set[i] = features[i];
  }
  return set;
}

TEST(EventFeatures, AreWhatThePageSays) {
  const std::map<std::size_t, float> no_operation{{1, 0.5F}, {2, 0.5F}, {3, 0.5F}, {4, 0.5F}};

  struct {
    const char* json;
    std::map<std::size_t, float> features;
    bool has_operation = false;
  } const cases[]{
      // "ab": 97 * 31 + 98
      {R"({"plugin": "ab", "operation": "delete"})", {{0, 3105.0F / 4294967296.0F}, {3, 1}}, true},
      {R"({"operation": "create", "data": {}})", {{1, 1}, {5, 1}}, true},
      {R"({"operation": "apply", "data": {"a": "x", "ab": 1, "b": true, "c": null}})",
       {{5, 1}, {6, 0.04F}, {7, 3.0F / 26}, {8, 0.25F}, {9, 0.25F}, {10, 0.25F}, {11, 0.25F}}},
      {R"({"data": [1, 2.5, "x", [1]]})", {{6, 0.04F}, {8, 0.25F}, {9, 0.5F}}},
      {R"({"data": "ab"})", {{6, 0.002F}, {12, 3105.0F / 4294967296.0F}}},
      {R"({"data": 7, "metadata": {"user": "root", "source": 1, "x": 2}})", {{13, 0.06F}, {14, 1}, {18, 1}}},
      // Friday, 2 January 1970, 13 o'clock
      {R"({"data": 7, "timestamp": 133200.5})", {{19, 13.0F / 24}, {20, 4.0F / 7}}},
      {R"({"data": 7, "timestamp": "1970-01-02T13:00:00Z"})", {}},
      {R"({"data": 7, "timestamp": -5})", {}},
      {R"({"data": 7, "timestamp": 1e300})", {}},
  };

  for (const auto& one : cases) {
    std::map<std::size_t, float> expected = one.features;
    if (!one.has_operation) expected.insert(no_operation.begin(), no_operation.end());
    const std::vector<float> features = features_of(read_event(one.json, {}));
    EXPECT_EQ(features.size(), features_dimension);
    EXPECT_EQ(set_in(features), expected) << one.json;
  }
}

TEST(EventFeatures, AreFiniteAndTheSameInAnyOrder) {
  for (const char* json :
       {R"({"plugin": "p", "data": {}})", R"({"data": []})", R"({"data": ""})", R"({"plugin": ""})", "[]", "5"}) {
    const std::vector<float> features = features_of(read_event(json, {}));
    EXPECT_TRUE(std::ranges::all_of(features, [](float x) { return std::isfinite(x); })) << json;
  }
  EXPECT_EQ(features_of(read_event(R"({"plugin": "p", "data": {"a": 1, "b": "x"}})", {})),
            features_of(read_event(R"({"data": {"b": "x", "a": 1}, "plugin": "p"})", {})));
}

TEST(EventFeatures, OfTextsThatAreNoEvents) {
  EXPECT_EQ(features_of(event_of_text("ab")), features_of(read_event(R"({"data": "ab"})", {})));
  for (const char* json : {"[1]", "\"ab\"", "5", " true "}) {
    EXPECT_EQ(features_of(event_of_text(json)), features_of(read_event(json, {}))) << json;
  }
  EXPECT_EQ(features_of(event_of_text("[1")), features_of(read_event(R"({"data": "[1"})", {})));
  EXPECT_THROW((void)event_of_text("null"), Error);
  EXPECT_EQ(features_of(event_of_text("")), features_of(event_of_text("")));
  EXPECT_EQ(features_of(event_of_text(R"( {"plugin": "p"})")), features_of(read_event(R"({"plugin": "p"})", {})));
  try {
    (void)event_of_text(R"({"plugin": )");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  }
}

TEST(EventFeatures, NoModelsVectorsAreInTheirCollection) {
  const vector_store::CollectionFacts facts = features_facts();
  EXPECT_EQ(facts.dimension, features_dimension);
  vector_store::CollectionFacts other = facts;
  other.model = features_model;
  other.digest = "sha256:" + std::string(64, 'a');
  for (const auto& [stored, given] : {std::pair(facts, other), std::pair(other, facts)}) {
    try {
      vector_store::require_same_vectors(stored, given, "events");
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("has vectors of model 'heuristic-features'"));
    }
  }
}

TEST(EventFeatures, AreNamedInEachVector) {
  EmbeddedEvent event;
  event.event = read_event(R"({"plugin": "p"})", {});
  event.vector = features_of(event.event);
  event.model = features_model;
  event.digest = features_digest();
  event.level = features_level;
  EXPECT_THAT(vec_document(event),
              testing::AllOf(HasSubstr(R"("model": "heuristic-features")"), HasSubstr(R"("level": "none")"),
                             HasSubstr(R"("dimension": 64)"), HasSubstr("\"digest\": \"sha256:" + features_digest())));
}

}  // namespace
}  // namespace gpux::daemon
