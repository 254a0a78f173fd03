// gpux::Collection: what is stored is found, and vectors that do not belong together are refused by name.
#include "gpux/collection.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "embedding/encoder_folder.h"
#include "embedding/representation_folder.h"
#include "gpux/embedder.h"
#include "gpux/error.h"
#include "gpux/pipeline.h"
#include "library/expect_error.h"
#include "pipeline/task_folder.h"

namespace gpux {
namespace {

using test::expect_error;
using testing::HasSubstr;

class Collections : public testing::Test {
 protected:
  Collections() {
    ::setenv("GPUX_HOME", (folder_.path() / "home").c_str(), 1);
    encoder_ = test::write_encoder_folder(folder_, R"({"pooling_mode_mean_tokens": true})", true);
  }

  [[nodiscard]] std::string url(const std::string& name = "texts.gpux") const {
    return "file:" + (folder_.path() / name).string();
  }

  test::TemporaryFolder folder_;
  std::filesystem::path encoder_;
};

const std::vector<CollectionText> texts{{.text = "the cat", .payload = R"({"kind": "animal", "meta": {"legs": 4}})"},
                                        {.text = "a dog sat", .payload = R"({"kind": "animal", "id": 7})"},
                                        {.text = "what is an answer", .payload = R"({"kind": "question"})"},
                                        {.text = "a fox"}};

TEST_F(Collections, WhatIsStoredIsFound) {
  const Embedder embedder(encoder_.string());
  Collection collection(url());
  EXPECT_FALSE(collection.facts());
  EXPECT_EQ(collection.count(), 0U);
  EXPECT_EQ(collection.upsert(embedder, texts), texts.size());
  EXPECT_EQ(collection.count(), texts.size());
  const CollectionFacts facts = collection.facts().value();
  EXPECT_EQ(facts.model, "encoder");
  EXPECT_EQ(facts.digest, "sha256:" + embedder.digest());
  EXPECT_EQ(facts.precision, embedder.verdict().precision);
  EXPECT_EQ(facts.dimension, embedder.dimension());
  EXPECT_EQ(facts.distance, Similarity::cosine);
  EXPECT_TRUE(facts.is_normalized);
  // From the disk.
  Collection again(url());
  const std::vector<CollectionHit> hits = again.search(embedder, "the cat", {.count = 2});
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].text, "the cat");
  EXPECT_NEAR(hits[0].score, 1, 1e-5);
  EXPECT_EQ(nlohmann::json::parse(hits[0].payload), nlohmann::json::parse(texts[0].payload));
  EXPECT_EQ(hits[0].id.size(), 64U);
  EXPECT_GE(hits[0].score, hits[1].score);
  EXPECT_EQ(again.search(embedder.embed("the cat"), {.count = 1}).front().text, "the cat");
}

TEST_F(Collections, ConditionsAndExactSearch) {
  const Embedder embedder(encoder_.string());
  Collection collection(url());
  collection.upsert(embedder, texts);
  const auto found = [&](const std::vector<std::string>& where) {
    std::set<std::string> names;
    for (const CollectionHit& hit : collection.search(embedder, "a", {.where = where, .is_exact = true})) {
      names.insert(hit.text);
    }
    return names;
  };
  EXPECT_EQ(found({"kind=animal"}), (std::set<std::string>{"the cat", "a dog sat"}));
  EXPECT_EQ(found({"kind=animal", "meta.legs=4"}), std::set<std::string>{"the cat"});
  EXPECT_TRUE(found({"kind=stone"}).empty());
  expect_error(ErrorCode::usage, "KEY=VALUE", [&] { (void)found({"kind"}); });
}

TEST_F(Collections, ATextWithTheSameIdIsReplaced) {
  const Embedder embedder(encoder_.string());
  Collection collection(url());
  collection.upsert(embedder, texts);
  const std::vector<CollectionText> changed{{.text = "a dog ran", .payload = R"({"id": 7})"}, {.text = "the cat"}};
  collection.upsert(embedder, changed, {.updates_index = false});
  collection.update_index();
  EXPECT_EQ(collection.count(), texts.size());
  EXPECT_EQ(collection.search(embedder, "a dog ran", {.count = 1}).front().text, "a dog ran");
  EXPECT_TRUE(collection.search(embedder, "a", {.where = {"meta.legs=4"}}).empty());
}

TEST_F(Collections, AnySourceOfTexts) {
  const Embedder embedder(encoder_.string(), {.workers = 3});
  Collection collection(url());
  int left = 2500;
  const std::uint64_t count = collection.upsert(embedder, [&](CollectionText& text) {
    text.text = "cat " + std::to_string(left);
    text.payload = R"({"number": )" + std::to_string(left) + "}";
    return left-- > 0;
  });
  EXPECT_EQ(count, 2500U);
  EXPECT_EQ(collection.count(), 2500U);
  const auto hits = collection.search(embedder, "cat 77", {.count = 1, .where = {"number=77"}});
  EXPECT_EQ(hits.front().text, "cat 77");
}

TEST_F(Collections, VectorsOfAnotherModelAreRefused) {
  const test::TemporaryFolder elsewhere;
  const Embedder embedder(encoder_.string());
  const Embedder other(
      test::write_encoder_folder(elsewhere, R"({"pooling_mode_mean_tokens": true})", true, "encoder_variant.onnx")
          .string());
  Collection collection(url());
  collection.upsert(embedder, texts);
  const std::string refusal = "has vectors of model 'encoder' (sha256:" + embedder.digest() + ")";
  expect_error(ErrorCode::invalid_input, refusal, [&] { collection.upsert(other, texts); });
  expect_error(ErrorCode::invalid_input, refusal, [&] { (void)collection.search(other, "a"); });
  expect_error(ErrorCode::invalid_input, "with the prompt ''",
               [&] { collection.upsert(embedder, texts, {.embedding = {.prompt_name = "query"}}); });
  expect_error(ErrorCode::invalid_input, "dimensions",
               [&] { (void)collection.search(embedder, "a", {.embedding = {.dimensions = 2}}); });
  expect_error(ErrorCode::invalid_input, "dimensions", [&] { (void)collection.search(std::vector<float>{1, 2}); });
  expect_error(ErrorCode::invalid_input, "not normalized",
               [&] { collection.upsert(embedder, texts, {.embedding = {.normalize = false}}); });
  EXPECT_EQ(collection.count(), texts.size());
}

// Vectors that are cut have the length 1 unless told otherwise, also those of a model that does not normalize.
TEST_F(Collections, CutVectorsAreStoredAsWhatTheyAre) {
  const test::TemporaryFolder elsewhere;
  const Embedder embedder(
      test::write_encoder_folder(elsewhere, R"({"pooling_mode_mean_tokens": true})", false).string());
  Collection collection(url());
  collection.upsert(embedder, texts, {.embedding = {.dimensions = 2}});
  EXPECT_TRUE(collection.facts().value().is_normalized);
  collection.upsert(embedder, texts, {.embedding = {.dimensions = 2, .normalize = true}});
  EXPECT_EQ(collection.facts().value().dimension, 2U);
}

TEST_F(Collections, HybridSearch) {
  const Embedder both(test::write_representation_folder(folder_, "bge_m3").string());
  Collection collection(url());
  collection.upsert(both, texts, {.is_hybrid = true});
  EXPECT_GT(collection.facts().value().sparse_dimension, 0U);
  const std::vector<CollectionHit> hits = collection.search(both, "what is an answer", {.is_hybrid = true});
  EXPECT_EQ(hits.front().text, "what is an answer");
  // It is the first of both lists.
  EXPECT_NEAR(hits.front().score, 2.0 / 61, 1e-9);
  expect_error(ErrorCode::usage, "need a text", [&] { (void)collection.search(both.embed("a"), {.is_hybrid = true}); });
  const Embedder dense(encoder_.string());
  Collection plain(url("plain.gpux"));
  plain.upsert(dense, texts);
  expect_error(ErrorCode::usage, "has dense vectors alone",
               [&] { (void)plain.search(dense, "a", {.is_hybrid = true}); });
  Collection none(url("none.gpux"));
  expect_error(ErrorCode::usage, "makes no sparse vectors", [&] { none.upsert(dense, texts, {.is_hybrid = true}); });
  EXPECT_FALSE(none.facts());
}

TEST_F(Collections, ARerankerOrdersWhatWasFound) {
  const Embedder embedder(encoder_.string());
  const Pipeline ranker(test::import_task_folder(folder_, "rank-mpnet").string());
  Collection collection(url());
  collection.upsert(embedder, texts);
  std::vector<std::string> words;
  for (const CollectionText& text : texts) words.push_back(text.text);
  const std::vector<RankedText> expected = ranker.rank("what", words);
  const std::vector<CollectionHit> hits = collection.search(embedder, "what", {.count = 3, .reranker = &ranker});
  ASSERT_EQ(hits.size(), 3U);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    EXPECT_EQ(hits[i].text, words[expected[i].index]);
    EXPECT_NEAR(hits[i].score, expected[i].score, 1e-5);
  }
  const Pipeline classifier(test::import_task_folder(folder_, "classify-bert").string());
  expect_error(ErrorCode::usage, "and text-ranking is requested",
               [&] { (void)collection.search(embedder, "what", {.where = {"kind=none"}, .reranker = &classifier}); });
}

TEST_F(Collections, MistakesAreErrors) {
  const Embedder embedder(encoder_.string());
  expect_error(ErrorCode::usage, "accepted: postgres://", [] { const Collection none("mysql://localhost/shop"); });
  Collection collection(url());
  expect_error(ErrorCode::not_found, "there is no collection of gpux", [&] { (void)collection.search(embedder, "a"); });
  expect_error(ErrorCode::not_found, "there is no collection of gpux", [&] { collection.update_index(); });
  const std::vector<CollectionText> wrong{{.text = "a"}, {.text = "b", .payload = "[1]"}};
  expect_error(ErrorCode::invalid_input, "text 2: the payload is no JSON object",
               [&] { collection.upsert(embedder, wrong); });
  const std::vector<CollectionText> broken{{.text = "a", .payload = "{"}};
  expect_error(ErrorCode::invalid_input, "text 1: the payload is no JSON object",
               [&] { collection.upsert(embedder, broken); });
  const std::vector<CollectionText> rounded{{.text = "a", .payload = R"({"id": 18446744073709551617})"}};
  expect_error(ErrorCode::invalid_input,
               "text 1: the payload: the number 18446744073709551617 does not fit in 64 bits; give it as text",
               [&] { collection.upsert(embedder, rounded); });
  const std::vector<CollectionText> empty{{.text = "caf\xe9"}};
  expect_error(ErrorCode::invalid_input, "text 1", [&] { collection.upsert(embedder, empty); });
  expect_error(ErrorCode::invalid_input, "no direction", [&] {
    collection.upsert(embedder, texts);
    (void)collection.search(std::vector<float>(embedder.dimension(), 0));
  });
  folder_.write("stranger", "no vectors");
  Collection stranger(url("stranger"));
  expect_error(ErrorCode::invalid_input, "is no file of vectors of gpux", [&] { (void)stranger.facts(); });
}

}  // namespace
}  // namespace gpux
