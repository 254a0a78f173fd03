#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "cli/program.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;

using Strings = std::vector<std::string>;
using Indices = std::vector<std::size_t>;

const std::string mean_pooling = R"({"pooling_mode_mean_tokens": true})";

// A file as NumPy writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& elements) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(117 - header.size(), ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + elements;
}

template <typename T>
std::string bytes_of(const std::vector<T>& elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  if (!elements.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

class Search : public testing::Test {
 protected:
  void SetUp() override { (void)write_encoder_folder(gpux_.folder(), mean_pooling, true); }

  [[nodiscard]] Outcome call(Strings arguments, Surroundings where = {}) const {
    where.folder = gpux_.folder().path();
    return gpux_.run(arguments, where);
  }

  [[nodiscard]] Outcome search(Strings arguments) const {
    arguments.insert(arguments.begin(), "search");
    if (std::ranges::find(arguments, "--table") == arguments.end()) arguments.emplace_back("--json");
    return call(arguments);
  }

  [[nodiscard]] Json results(const Strings& arguments) const {
    const Outcome outcome = search(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json()["results"];
  }

  [[nodiscard]] Indices indices(const Strings& arguments) const {
    Indices list;
    for (const Json& result : results(arguments)) {
      EXPECT_EQ(result["rank"], list.size() + 1);
      list.push_back(result["index"]);
    }
    return list;
  }

  void embed(const std::string& output, const Strings& flags = {}) const {
    Strings words{"embed", "--model", "encoder", "-o", output};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), texts.begin(), texts.end());
    ASSERT_EQ(call(words).code, 0);
  }

  const Strings texts{"the model runs", "one line", "vectors of texts", "the processor", "one line"};
  const Strings query{"one line", "--model", "encoder"};
  Program gpux_;
};

Strings operator+(Strings left, const Strings& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST_F(Search, FindsATextInWhateverEmbedWrites) {
  Indices order;
  for (const auto& [file, flags] : std::vector<std::pair<std::string, Strings>>{{"v.npy", {}},
                                                                                {"v.jsonl", {}},
                                                                                {"b.jsonl", {"--encoding", "base64"}},
                                                                                {"q.jsonl", {"--encoding", "int8"}},
                                                                                {"q.npy", {"--encoding", "int8"}}}) {
    SCOPED_TRACE(file);
    embed(file, flags);
    const Json found = results(query + Strings{"--index", file});
    ASSERT_EQ(found.size(), texts.size());
    EXPECT_EQ(found[0]["index"], 1);
    EXPECT_EQ(found[1]["index"], 4);
    EXPECT_EQ(found[0]["score"], found[1]["score"]);
    EXPECT_NEAR(found[0]["score"], 1, file.starts_with("q") ? 1e-3 : 1e-6);
    EXPECT_LT(found[2]["score"], found[1]["score"]);
    EXPECT_FALSE(found[0].contains("text"));
    const Indices all = indices(query + Strings{"--index", file, "--workers", "3"});
    if (order.empty()) order = all;
    EXPECT_EQ(all, order);
    EXPECT_EQ(indices(query + Strings{"--index", file, "--top-k", "2"}), Indices({1, 4}));
  }
  const Json whole = search(query + Strings{"--index", "v.npy", "--top-k", "1"}).json();
  EXPECT_EQ(whole["vectors"], 5);
  EXPECT_EQ(whole["dimension"], 16);
}

TEST_F(Search, TellsTextsWhereTheyAreKnown) {
  embed("v.npy");
  std::string lines, objects;
  for (const std::string& text : texts) {
    lines += text + "\n";
    objects += Json{{"text", text}}.dump() + "\n";
  }
  gpux_.folder().write("lines.txt", lines);
  gpux_.folder().write("items.jsonl", objects);
  gpux_.folder().write("items.csv", "text\n" + lines);
  for (const Strings& from : {Strings{"--texts", "lines.txt"}, Strings{"--texts", "items.jsonl", "--field", "text"},
                              Strings{"--texts", "items.csv", "--column", "text"}}) {
    for (const Json& result : results(query + Strings{"--index", "v.npy"} + from)) {
      EXPECT_EQ(result["text"], texts[result["index"]]);
    }
  }
  gpux_.folder().write("fewer.txt", "one\n");
  EXPECT_THAT(search(query + Strings{"--index", "v.npy", "--texts", "fewer.txt"}).err,
              HasSubstr("--texts 'fewer.txt' has 1 text, 'v.npy' has 5 vectors"));

  embed("vectors/");
  const Json found = results(query + Strings{"--index", "vectors"});
  EXPECT_EQ(found.size(), 4U) << "equal texts share a file";
  EXPECT_EQ(found[0]["hash"], sha256_of("one line"));
  for (const Json& result : found) EXPECT_EQ(result["hash"], sha256_of(result["text"].get<std::string>()));
  EXPECT_EQ(results(query + Strings{"--index", "vectors/" + sha256_of("one line") + ".vec"})[0]["text"], "one line");
  EXPECT_EQ(search(query + Strings{"--index", "vectors", "--texts", "lines.txt"}).code, 2);

  gpux_.folder().write("named.jsonl", "{\"id\": 7, \"vector\": [1, 0]}\n\n{\"vector\": [0, 1], \"text\": \"up\"}\n");
  gpux_.folder().write("q.npy", npy("<f4", "2,", bytes_of<float>({3, 4})));
  const Json named = results({"--query-vector", "q.npy", "--index", "named.jsonl"});
  EXPECT_EQ(named, Json::parse(R"([{"rank": 1, "score": 0.8, "index": 1, "text": "up"},
                                   {"rank": 2, "score": 0.6, "index": 0, "id": "7"}])"));
}

TEST_F(Search, IsATableForPeople) {
  gpux_.folder().write("named.jsonl", "{\"id\": \"a\", \"vector\": [1, 0], \"text\": \"to\\nthe right\"}\n");
  gpux_.folder().write("q.npy", npy("<f4", "1, 2", bytes_of<float>({1, 0})));
  const Outcome outcome = search({"--query-vector", "q.npy", "--index", "named.jsonl", "--table"});
  EXPECT_EQ(outcome.out, "RANK  SCORE   INDEX  ID  TEXT\n1     1.0000  0      a   to the right\n");
  EXPECT_THAT(outcome.err, testing::MatchesRegex("gpux: searched 1 vector in [^\n]* s\n"));
}

TEST_F(Search, ReadsArraysOfOtherTypes) {
  gpux_.folder().write("q.npy", npy("<f8", "2,", bytes_of<double>({1, 0})));
  const float nan = std::nanf("");
  gpux_.folder().write("nan.npy", npy("<f4", "3, 2", bytes_of<float>({nan, 1, 0, 0, 0, 5})));
  gpux_.folder().write("double.npy", npy("<f8", "2, 2", bytes_of<double>({0, 1, 9, 0})));
  gpux_.folder().write("levels.npy", npy("|i1", "2, 2", bytes_of<std::int8_t>({0, 1, 127, 0})));
  gpux_.folder().write("none.npy", npy("<f4", "0, 2", ""));
  gpux_.folder().write("none.jsonl", "");
  EXPECT_EQ(indices({"--query-vector", "q.npy", "--index", "nan.npy"}), Indices({1, 2}));
  EXPECT_EQ(indices({"--query-vector", "q.npy", "--index", "double.npy"}), Indices({1, 0}));
  EXPECT_EQ(indices({"--query-vector", "q.npy", "--index", "levels.npy"}), Indices({1, 0}));
  EXPECT_EQ(indices({"--query-vector", "q.npy", "--index", "none.npy"}), Indices());
  EXPECT_EQ(indices({"--query-vector", "q.npy", "--index", "none.jsonl"}), Indices());
}

TEST_F(Search, CutsTheQueryAsTheVectorsWereCut) {
  embed("cut.jsonl", {"--dimensions", "5"});
  EXPECT_THAT(search(query + Strings{"--index", "cut.jsonl"}).err,
              HasSubstr("--model 'encoder' has 16 dimensions, the vectors of 'cut.jsonl' have 5; --dimensions 5 cuts"));
  EXPECT_NEAR(results(query + Strings{"--index", "cut.jsonl", "--dimensions", "5"})[0]["score"], 1, 1e-6);
}

TEST_F(Search, ComparesAsTheFolderSays) {
  (void)write_encoder_folder(gpux_.folder(), mean_pooling, false);
  const auto scores = [&](const std::string& similarity) {
    gpux_.folder().write("encoder/config_sentence_transformers.json", R"({"similarity_fn_name": )" + similarity + "}");
    return results(query + texts);
  };
  const Outcome embedded = call({"embed", "--model", "encoder", "one line", "-q"});
  double squares = 0;
  for (const Json& element : embedded.json()["vector"]) squares += element.get<double>() * element.get<double>();
  EXPECT_NEAR(scores("null")[0]["score"], 1, 1e-6);
  const Json products = scores(R"("dot")");
  EXPECT_TRUE(std::ranges::any_of(products, [&](const Json& result) {
    return result["text"] == "one line" && std::fabs(result["score"].get<double>() - squares) < 1e-5;
  })) << products;
  const Json distances = scores(R"("euclidean")");
  EXPECT_EQ(distances[0]["text"], "one line");
  EXPECT_EQ(distances[0]["score"], 0);
  EXPECT_LT(distances.back()["score"], -0.01);
  embed("v.npy");
  EXPECT_EQ(results(query + Strings{"--index", "v.npy"})[0]["score"], 0) << "also of an index";
}

TEST_F(Search, EmbedsTheTextsThatAreGivenHere) {
  const Json found = results(query + texts);
  ASSERT_EQ(found.size(), texts.size());
  embed("v.npy");
  gpux_.folder().write("lines.txt", "the model runs\none line\nvectors of texts\nthe processor\none line\n");
  EXPECT_EQ(found, results(query + Strings{"--index", "v.npy", "--texts", "lines.txt"}));
  EXPECT_EQ(found, results(query + Strings{"@lines.txt"}));
  gpux_.folder().write("items.csv", "text\nthe model runs\none line\n");
  EXPECT_EQ(results(query + Strings{"@items.csv", "--column", "text", "--top-k", "1"})[0]["text"], "one line");
  const Json prompted = results(query + texts + Strings{"--prompt-text", "the processor"});
  EXPECT_LT(prompted[0]["score"], 0.999999) << "the prompt is the query's alone";
}

TEST_F(Search, TakesItsModelAsTheFirstWordOrByFlag) {
  embed("v.npy");
  const Json among = results(query + texts), stored = results(query + Strings{"--index", "v.npy"});
  EXPECT_EQ(results(Strings{"encoder", "one line"} + texts), among);
  EXPECT_EQ(results(Strings{"-m", "encoder", "one line"} + texts), among);
  EXPECT_EQ(results({"encoder", "one line", "--index", "v.npy"}), stored);
}

TEST_F(Search, ReadsItsQueryAsAText) {
  embed("v.npy");
  gpux_.folder().write("query.txt", "one line\n");
  gpux_.folder().write("latin1.txt", "caf\xe9\n");
  const Strings flags{"--model", "encoder", "--index", "v.npy"};
  const Json expected = results(query + Strings{"--index", "v.npy"});
  EXPECT_EQ(results(Strings{"@query.txt"} + flags), expected);
  const Outcome read = call(Strings{"search", "-", "--json"} + flags, {.standard_input = "one line\n"});
  EXPECT_EQ(read.json()["results"], expected);

  const Outcome named = search(Strings{"query.txt"} + flags);
  EXPECT_EQ(named.code, 2);
  EXPECT_THAT(named.err, HasSubstr("search: 'query.txt' is a file: write '@query.txt'"));
  EXPECT_EQ(search(query + Strings{"a text", "query.txt"}).code, 2);
  for (const char* text : {"@latin1.txt", "caf\xe9"}) {
    const Outcome outcome = search(Strings{text} + flags);
    EXPECT_EQ(outcome.code, 6) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("not UTF-8 at byte offset 3 (0xe9)"));
  }
  const Outcome twice = call({"search", "-", "-", "--model", "encoder"}, {.standard_input = "one line\n"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("standard input is read once"));
}

TEST_F(Search, RefusesInOneLine) {
  embed("v.npy");
  embed("v.jsonl");
  embed("bits.npy", {"--encoding", "binary"});
  embed("bits.jsonl", {"--encoding", "binary"});
  gpux_.folder().write("zero.npy", npy("<f4", "2,", bytes_of<float>({0, 0})));
  gpux_.folder().write("two.npy", npy("<f4", "2,", bytes_of<float>({1, 0})));
  gpux_.folder().write("cube.npy", npy("<f4", "1, 1, 2", bytes_of<float>({1, 0})));
  gpux_.folder().write("empty/other.txt", "");
  gpux_.folder().write("lengths.jsonl", "{\"vector\": [1, 0]}\n{\"vector\": [1]}\n");
  gpux_.folder().write(
      "models.jsonl",
      "{\"digest\": \"sha256:a\", \"vector\": [1, 0]}\n{\"digest\": \"sha256:b\", \"vector\": [1, 0]}\n");
  gpux_.folder().write("text.jsonl", "{\"vector\": [1, \"a\"]}\n");
  gpux_.folder().write("bare.jsonl", "{\"text\": \"a\"}\n");
  gpux_.folder().write("broken.jsonl", "{\"vector\": [1, 0]}\n{\"vector\n");
  gpux_.folder().write("base64.jsonl", "{\"encoding\": \"base64\", \"vector\": \"AAA=\"}\n");
  gpux_.folder().write("other/v.vec",
                       R"({"hash": "", "vector": [1, 0], "metadata": {"model": "m", "digest": "sha256:c"}})");

  struct {
    Strings arguments;
    int code;
    const char* words;
  } const cases[]{
      {{}, 2, "give --index"},
      {{"--index", "v.npy"}, 2, "give a text"},
      {{"encoder", "--index", "v.npy"}, 2, "'encoder' is the model, and there is no text to search for"},
      {{"a", "b"}, 2, "give --index"},
      {{"what runs", "b", "--index", "v.npy"}, 2, "the first word is the model, unless -m or --level names it"},
      {{"a", "b", "--index", "v.npy", "--model", "encoder"}, 2, "not both"},
      {{"a", "b", "--texts", "v.npy", "--model", "encoder"}, 2, "@FILE"},
      {{"a", "@none.txt", "--model", "encoder"}, 7, "none.txt"},
      {{"a", "--index", "v.npy", "--query-vector", "two.npy"}, 2, "without a text"},
      {{"--index", "v.npy", "--query-vector", "two.npy", "--model", "encoder"},
       2,
       "--query-vector is searched for as it is, without --model"},
      {{"--index", "v.npy", "--query-vector", "two.npy", "--threads", "2"},
       2,
       "--query-vector is searched for as it is, without --threads"},
      {{"--index", "v.npy", "--query-vector", "two.npy", "--top-k", "0"}, 2, "--top-k"},
      {{"--index", "v.npy", "--query-vector", "two.npy", "--field", "a"}, 2, "--texts FILE"},
      {{"--index", "v.f32", "--query-vector", "two.npy"}, 2, ".npy, .jsonl, .vec"},
      {{"--index", "none.npy", "--query-vector", "two.npy"}, 7, "none.npy"},
      {{"--index", "empty", "--query-vector", "two.npy"}, 7, "'empty' has no .vec files"},
      {{"--index", "v.npy", "--query-vector", "none.npy"}, 7, "--query-vector none.npy"},
      {{"--index", "v.npy", "--query-vector", "cube.npy"}, 6, "[dimension] or [1, dimension]"},
      {{"--index", "v.npy", "--query-vector", "two.npy"},
       6,
       "--query-vector has 2 dimensions, the vectors of 'v.npy' have 16"},
      {{"--index", "cube.npy", "--query-vector", "two.npy"}, 6, "[rows, dimension]"},
      {{"--index", "lengths.jsonl", "--query-vector", "two.npy"}, 6, "lengths.jsonl:2: the vector has 1 dimension,"},
      {{"--index", "models.jsonl", "--query-vector", "two.npy"}, 6, "models.jsonl:2: the vector is of model"},
      {{"--index", "text.jsonl", "--query-vector", "two.npy"}, 6, "text.jsonl:1: "},
      {{"--index", "bare.jsonl", "--query-vector", "two.npy"}, 6, "bare.jsonl:1: there is no 'vector'"},
      {{"--index", "broken.jsonl", "--query-vector", "two.npy"}, 6, "broken.jsonl:2: "},
      {{"--index", "base64.jsonl", "--query-vector", "two.npy"},
       6,
       "base64.jsonl:1: 'vector' is not base64 of float32"},
      {{"--index", "bits.npy", "--query-vector", "two.npy"}, 6, "vectors of uint8 are not searched"},
      {{"--index", "bits.jsonl", "--query-vector", "two.npy"}, 6, "vectors of encoding 'binary' are not searched"},
      {{"--index", "other", "--query-vector", "zero.npy"}, 6, "the query has no direction"},
      {{"a", "--index", "other", "--model", "encoder"},
       6,
       "were made by model 'm' (sha256:c), and 'encoder' is sha256:"},
      {{"a", "--index", "v.npy", "--model", "none"}, 7, "none"},
  };

  for (const auto& [arguments, code, words] : cases) {
    const Outcome outcome = search(arguments + Strings{"-q"});
    EXPECT_EQ(outcome.code, code) << testing::PrintToString(arguments) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace gpux::test
