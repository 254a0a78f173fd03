#include "vector_store/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "vector_store/store_url.h"
#include "vector_store/vector_store.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const CollectionFacts facts{
    .model = "minilm", .digest = "sha256:aa", .precision = "float32", .dimension = 384, .prompt = "query: "};

template <typename Change>
CollectionFacts changed(Change change) {
  CollectionFacts other = facts;
  change(other);
  return other;
}

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.message();
  }
  return "accepted";
}

TEST(CollectionFacts, RefuseVectorsOfAnotherModelByName) {
  const auto refusal = [](const CollectionFacts& given) {
    return message_of([&] { require_same_vectors(facts, given, "postgres://h/d"); });
  };
  EXPECT_EQ(refusal(facts), "accepted");
  EXPECT_EQ(refusal(changed([](auto& f) { f.precision = "fp16"; })), "accepted");
  EXPECT_EQ(refusal(changed([](auto& f) {
              f.model = "other";
              f.digest = "sha256:bb";
            })),
            "'postgres://h/d' has vectors of model 'minilm' (sha256:aa), and 'other' is sha256:bb; another collection "
            "takes those");
  EXPECT_EQ(refusal(changed([](auto& f) { f.dimension = 256; })),
            "'postgres://h/d' has vectors of 384 dimensions, and this one has 256");
  EXPECT_EQ(refusal(changed([](auto& f) { f.distance = Similarity::dot; })),
            "'postgres://h/d' compares vectors by cosine, and not by dot");
  EXPECT_EQ(refusal(changed([](auto& f) { f.prompt = ""; })),
            "'postgres://h/d' has vectors with the prompt 'query: ', and these have ''");
  EXPECT_THAT(refusal(changed([](auto& f) { f.sparse_dimension = 30522; })), HasSubstr("dense vectors alone"));
  EXPECT_THAT(refusal(changed([](auto& f) { f.is_normalized = true; })), HasSubstr("not normalized, and these are"));
}

TEST(CollectionFacts, AreSearchedByAnyPromptOfTheModel) {
  const auto refusal = [](std::string_view digest, std::size_t dimension) {
    return message_of([&] { require_searchable(facts, "m", digest, dimension, "q"); });
  };
  EXPECT_EQ(refusal("sha256:aa", 384), "accepted");
  EXPECT_EQ(refusal("", 384), "accepted");
  EXPECT_THAT(refusal("sha256:bb", 384), HasSubstr("has vectors of model 'minilm'"));
  EXPECT_THAT(refusal("", 12), HasSubstr("384 dimensions, and this one has 12"));
}

TEST(CollectionFacts, AreNotComparedWithVectorsOfOtherLengths) {
  for (const Similarity distance :
       {Similarity::cosine, Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    const CollectionFacts stored = changed([&](auto& f) { f.distance = distance; });
    const auto refusal = [&](bool is_normalized) {
      return message_of([&] { require_same_lengths(stored, is_normalized, "q"); });
    };
    EXPECT_EQ(refusal(false), "accepted");
    if (distance == Similarity::cosine) {
      EXPECT_EQ(refusal(true), "accepted");
    } else {
      EXPECT_THAT(refusal(true), HasSubstr("has vectors that are not normalized, and these are"));
    }
  }
}

TEST(FileStore, IsNotLockedByWhatItRefuses) {
  const test::TemporaryFolder folder;
  const StoreUrl url = parse_store_url("file:" + (folder.path() / "vectors").string());
  open_store(url)->create(facts);
  const auto refused = open_store(url), other = open_store(url);
  EXPECT_THAT(message_of([&] { refused->create(changed([](auto& f) { f.dimension = 3; })); }),
              HasSubstr("384 dimensions"));
  EXPECT_NO_THROW(other->create(facts));
}

TEST(CollectionFacts, AreReadBackAsTheyWere) {
  for (const auto& [name, distance] : similarity_names) {
    const CollectionFacts one = changed([&, distance = distance](auto& f) { f.distance = distance; });
    EXPECT_EQ(facts_from_json(facts_to_json(one), "x"), one) << name;
  }
}

TEST(CollectionFacts, OfAStrangerAreRefused) {
  const Json good = facts_to_json(facts);
  for (const auto& [name, value] : std::map<std::string, Json>{
           {"dimension", 0}, {"dimension ", -1}, {"distance", "near"}, {"model", 5}, {"sparse_dimension", 1U << 21}}) {
    Json wrong = good;
    wrong[name == "dimension " ? "dimension" : name] = value;
    EXPECT_THAT(message_of([&] { (void)facts_from_json(wrong, "x"); }), HasSubstr("'x' has facts")) << name;
  }
  EXPECT_THAT(message_of([&] { (void)facts_from_json(Json::array(), "x"); }), HasSubstr("'x' has facts"));
}

TEST(StorableText, HasNoNulAndIsUtf8) {
  EXPECT_EQ(storable_text("a b"), "a b");
  EXPECT_EQ(storable_text(std::string_view("a\0b", 3)),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(storable_text("\xff\xc3\xa4"), "\xef\xbf\xbd\xc3\xa4");
  EXPECT_EQ(storable_json(Json{{std::string("k\0", 2), Json::array({std::string("\0", 1), 1, nullptr})}}),
            (Json{{"k\xef\xbf\xbd", Json::array({"\xef\xbf\xbd", 1, nullptr})}}));
}

// Its levels are bounded, because what prints it calls itself for each.
TEST(StoredJson, IsCutWhereItIsDeep) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string kept = stored_json(deep).dump();
  EXPECT_LE(kept.size(), 2U * max_payload_depth);
  EXPECT_GE(kept.size(), 2U * max_payload_depth - 4);
  EXPECT_EQ(stored_json(R"({"a": [1, {"b": null}]})").dump(), R"({"a":[1,{"b":null}]})");
  EXPECT_TRUE(stored_json("{").is_discarded());
}

}  // namespace
}  // namespace gpux::vector_store
