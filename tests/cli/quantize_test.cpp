// build and import with --quantize, and what runs the variants that they keep.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "base/sha256.h"
#include "cli/program.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

const std::string mean_pooling = R"({"pooling_mode_mean_tokens": true})";

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    (void)write_encoder_folder(gpux_.folder(), mean_pooling, true);
    gpux_.folder().write("samples.jsonl",
                         "{\"x\": [[1, -2, 0.5, 3, 1, -2, 0.5, 3, 1, -2, 0.5, 3, 1, -2, 0.5, 3]]}\n"
                         "{\"x\": [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]}\n");
  }

  [[nodiscard]] Outcome run(const Words& arguments) const {
    return gpux_.run(arguments, {.folder = gpux_.folder().path()});
  }

  [[nodiscard]] Json vectors_of(const Words& more) const {
    Words words{"embed", "--model", "mini", "the model runs", "a provider"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return lines_of(outcome.out);
  }

  Program gpux_;
};

TEST_F(Quantize, KeepsAVariantBesideTheModelThatRunsWhereItIsAskedFor) {
  const Outcome imported = run({"import", "encoder", "-t", "mini", "--quantize", "int8", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json said = imported.json().at("quantization");
  EXPECT_EQ(said.at("precision"), "int8");
  EXPECT_EQ(said.at("compared_on"), "64 recorded texts");
  EXPECT_GE(said.at("mean_cosine"), 0.98);
  EXPECT_LT(said.at("mean_cosine"), 1);
  EXPECT_LT(said.at("weight_bytes").get<double>(), said.at("model_weight_bytes").get<double>() / 2);
  EXPECT_FALSE(said.at("quantized").empty());

  const Json package = run({"inspect", "mini", "--json"}).json().at("package");
  const Json variant = package.at("variants").at(0);
  EXPECT_EQ(variant.at("precision"), "int8");
  EXPECT_EQ(variant.at("mean_cosine"), said.at("mean_cosine"));
  std::string digest;
  for (const Json& file : package.at("files")) {
    if (file.at("name") == variant.at("model_file")) digest = file.at("digest");
  }
  ASSERT_NE(digest, "");

  const Json own = vectors_of({}), asked = vectors_of({"--precision", "int8"});
  EXPECT_EQ(vectors_of({"--precision", "fp32"}), own);
  EXPECT_EQ(asked.at(0).at("digest"), "sha256:" + digest);
  EXPECT_NE(own.at(0).at("digest"), asked.at(0).at("digest"));
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_NE(own.at(i).at("vector"), asked.at(i).at("vector"));
    EXPECT_GT(cosine(own.at(i).at("vector"), asked.at(i).at("vector")), 0.9);
  }
  EXPECT_THAT(run({"embed", "--model", "mini", "a"}).err, HasSubstr(" in fp32"));
  EXPECT_THAT(run({"embed", "--model", "mini", "--precision", "int8", "a"}).err, HasSubstr(" in int8"));
}

TEST_F(Quantize, KeepsFloat16ForAccelerators) {
  const Outcome imported = run({"import", "encoder", "-t", "mini", "--quantize", "fp16", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json said = imported.json().at("quantization");
  EXPECT_EQ(said.at("precision"), "fp16");
  EXPECT_EQ(said.at("weight_bits"), 16);
  EXPECT_GE(said.at("mean_cosine"), 0.999);
  EXPECT_LT(said.at("weight_bytes").get<double>(), said.at("model_weight_bytes").get<double>() * 0.6);
  const Json variant = run({"inspect", "mini", "--json"}).json().at("package").at("variants").at(0);
  EXPECT_EQ(variant.at("model_file"), "fp16/model.onnx");

  // The CPU has no use for it; a provider that cannot convert the model itself runs it.
  const Words call{"run",         "chain", "-i",       "x=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]",
                   "--precision", "fp16",  "--report", "report.json"};
  ASSERT_EQ(
      run({"build", model("matmul_chain.onnx"), "-t", "chain", "--quantize", "fp16", "--samples", "samples.jsonl"})
          .code,
      0);
  const auto verdict_of = [&](const Words& more) {
    Words words = call;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(content_of(gpux_.folder().path() / "report.json")).at("verdict");
  };
  const Json on_cpu = verdict_of({});
  EXPECT_EQ(on_cpu.at("precision"), "fp32");
  EXPECT_THAT(on_cpu.at("notes").dump(), HasSubstr("fp16 variant is not used: it is for accelerators"));
  const Json elsewhere = verdict_of(
      {"--provider", "example,cpu", "--provider-library", std::string("example=").append(GPUX_EXAMPLE_PROVIDER)});
  EXPECT_EQ(elsewhere.at("precision"), "fp16");
  EXPECT_THAT(elsewhere.at("notes").dump(), HasSubstr("the model's fp16 variant is used"));
}

TEST_F(Quantize, GivesATextTheSameVectorWhateverItComesWith) {
  ASSERT_EQ(run({"import", "encoder", "-t", "mini", "--quantize", "int8"}).code, 0);
  const Words base{"embed", "--model", "mini", "--precision", "int8", "--workers"};
  const auto with = [&](const Words& more) {
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    return lines_of(run(words).out);
  };
  const std::vector<Json> alone = with({"1", "the model runs"});
  const std::vector<Json> among = with({"4", "a much longer text than the others here", "the model runs", "x"});
  ASSERT_EQ(among.size(), 3U);
  EXPECT_EQ(alone.at(0).at("vector"), among.at(1).at("vector"));
}

TEST_F(Quantize, MakesThePrecisionThatAPackageIsBuiltForItsDefault) {
  ASSERT_EQ(run({"import", "encoder", "-t", "mini", "--quantize", "int8", "--precision", "int8"}).code, 0);
  EXPECT_EQ(run({"inspect", "mini", "--json"}).json().at("package").at("precision"), "int8");
  EXPECT_THAT(run({"embed", "--model", "mini", "a"}).err, HasSubstr(" in int8"));
  EXPECT_THAT(run({"embed", "--model", "mini", "--precision", "fp32", "a"}).err, HasSubstr(" in fp32"));
}

TEST_F(Quantize, LeavesItToTheProjectWhatRuns) {
  gpux_.folder().write("project/gpux.yml",
                       "name: chain\nversion: 1.0.0\nmodel: {source: ./chain.onnx}\nruntime: {precision: int8}\n");
  fs::copy_file(model("matmul_chain.onnx"), gpux_.folder().path() / "project/chain.onnx");
  const Outcome built =
      run({"build", "project", "--quantize", "int8", "--samples", "samples.jsonl", "--min-cosine", "0.5"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Words call{"run", "chain", "-i", "x=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]"};
  EXPECT_THAT(run(call).err, HasSubstr(" in int8"));
  Words own = call;
  own.insert(own.end(), {"--precision", "fp32"});
  EXPECT_THAT(run(own).err, HasSubstr(" in fp32"));
}

TEST_F(Quantize, ComparesOnTheTextsThatAreGiven) {
  gpux_.folder().write("texts.txt", "the model runs\na provider\nwhat ran and why\n");
  const Outcome outcome =
      run({"import", "encoder", "-t", "mini", "--quantize", "int8", "--texts", "texts.txt", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json().at("quantization").at("compared_on"), "3 texts");
  EXPECT_EQ(outcome.json().at("quantization").at("samples"), 3);
}

TEST_F(Quantize, ComparesModelsWithoutTextsOnSamples) {
  const std::string chain = model("matmul_chain.onnx");
  gpux_.folder().write("one.json", R"({"x": [[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]})");
  ASSERT_EQ(
      run({"run", chain, "-i", "x=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]", "-o", "sets/test_data_set_0/input_0.pb"})
          .code,
      0);
  for (const char* samples : {"samples.jsonl", "one.json", "sets"}) {
    const Outcome outcome = run({"build", chain, "-t", "chain:int8", "--quantize", "int8", "--samples", samples,
                                 "--min-cosine", "0.9", "--json"});
    ASSERT_EQ(outcome.code, 0) << samples << outcome.err;
    const Json said = outcome.json().at("quantization");
    EXPECT_EQ(said.at("compared_on"), std::string(samples) == "samples.jsonl" ? "2 samples" : "1 sample");
    EXPECT_EQ(said.at("quantized").size(), 4U);
    EXPECT_EQ(said.at("quantized").at(0).at("node"), "matmul_0");
  }
  const Outcome asked = run({"run", "chain:int8", "--precision", "int8", "--file", "one.json"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.err, HasSubstr(" in int8"));
  EXPECT_NE(asked.out, run({"run", "chain:int8", "--file", "one.json"}).out);
  const Outcome verified =
      run({"verify", "chain:int8", "--precision", "int8", "--file", "one.json", "--atol", "100", "--json"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_EQ(verified.json().at("compared"), "cpu in int8 with cpu");
  EXPECT_EQ(verified.json().at("same_provider"), false);
  EXPECT_THAT(run({"inspect", "chain:int8", "-p", "cpu", "--precision", "int8"}).err, HasSubstr(" in int8"));
}

TEST_F(Quantize, RunsNoOtherPrecisionThanTheOneAskedFor) {
  const std::string chain = model("matmul_chain.onnx");
  const std::string x = "x=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]";
  ASSERT_EQ(run({"import", "encoder", "-t", "mini"}).code, 0);
  ASSERT_EQ(run({"build", chain, "-t", "half", "--quantize", "fp16", "--samples", "samples.jsonl"}).code, 0);
  const std::string own = "the model would run in fp32; it has fp32 (the model itself)";
  const std::string hint = "; 'gpux build --quantize int8' makes a variant";
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{"run", chain, "-i", x}, own + hint},
           {{"run", chain, "-i", x, "--benchmark", "--runs", "1"}, own + hint},
           {{"run", "half", "-i", x}, own + ", fp16 (a variant for accelerators)" + hint},
           {{"bench", chain, "--runs", "1"}, own + hint},
           {{"verify", chain}, own + hint},
           {{"inspect", chain, "-p", "cpu"}, own + hint},
           {{"serve", chain, "--port", "0"}, own + hint},
           {{"embed", "--model", "mini", "a"}, own + hint},
           {{"search", "--model", "mini", "a", "b"}, own + hint}}) {
    Words asked = words;
    asked.insert(asked.end(), {"--precision", "int8"});
    const Outcome outcome = run(asked);
    EXPECT_EQ(outcome.code, 2) << words.front() << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("--precision int8: " + says));
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome variable = gpux_.run({"run", chain, "-i", x}, {.environment = {"GPUX_PRECISION=bf16"}});
  EXPECT_EQ(variable.code, 2);
  EXPECT_THAT(variable.err, HasSubstr("GPUX_PRECISION bf16: " + own + "\n"));
  EXPECT_EQ(run({"run", chain, "-i", x, "--precision", "fp32"}).code, 0);
  // Without weights everything is computed in what is given.
  EXPECT_EQ(run({"run", model("add.onnx"), "-i", R"({"x": [[1, 2, 3]]})", "--precision", "fp32"}).code, 0);
}

TEST_F(Quantize, LeavesOutLayersThatCostTooMuchAndSaysWhich) {
  const auto built = [&](double min_cosine) {
    return run({"build", model("matmul_chain.onnx"), "-t", "chain", "--quantize", "int8", "--samples", "samples.jsonl",
                "--min-cosine", std::to_string(min_cosine), "--json"});
  };
  // Half of what all of them lose is too much.
  const double all = built(0.5).json().at("quantization").at("mean_cosine");
  ASSERT_LT(all, 0.99999);
  const double asked = (1 + all) / 2;
  const Outcome outcome = built(asked);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json said = outcome.json().at("quantization");
  EXPECT_GE(said.at("mean_cosine"), said.at("min_cosine"));
  EXPECT_EQ(said.at("all_quantized").at("mean_cosine"), all);
  const Json& excluded = said.at("excluded");
  EXPECT_EQ(said.at("quantized").size() + excluded.size(), 4U);
  ASSERT_FALSE(excluded.empty());
  for (std::size_t i = 1; i < excluded.size(); ++i) {
    EXPECT_LE(excluded.at(i - 1).at("mean_cosine_alone"), excluded.at(i).at("mean_cosine_alone"));
  }
}

TEST_F(Quantize, IsMeasuredByTheFastestOfAnyPrecision) {
  ASSERT_EQ(run({"import", "encoder", "-t", "mini", "--quantize", "int8"}).code, 0);
  const Words any{"embed", "--model", "mini", "--provider", "fastest", "--precision", "any", "a"};
  Words near = any, exact = any;
  near.insert(near.end(), {"--min-cosine", "0.5"});
  exact.insert(exact.end(), {"--min-cosine", "1"});
  EXPECT_THAT(run(near).err, AllOf(HasSubstr("cpu in int8 "), HasSubstr(" ms")));
  EXPECT_THAT(run(exact).err, AllOf(HasSubstr("not cpu in int8: mean cosine 0.9"), HasSubstr(" in fp32")));
  EXPECT_THAT(run({"embed", "--model", "mini", "--provider", "fastest", "a"}).err,
              AllOf(Not(HasSubstr("cpu in int8")), HasSubstr(" in fp32")));
}

TEST_F(Quantize, RefusesByOneLineAndKeepsNothing) {
  struct Case {
    Words arguments;
    int code;
    const char* words;
  };

  const std::string chain = model("matmul_chain.onnx"), add = model("add.onnx");
  const std::vector<Case> cases{
      {{"build", chain, "-t", "m", "--quantize", "int8"}, 2, "--samples PLACE"},
      {{"build", chain, "-t", "m", "--quantize", "int4", "--samples", "samples.jsonl"}, 2, "int8"},
      {{"build", chain, "-t", "m", "--quantize", "int8", "--samples", "samples.jsonl", "--min-cosine", "1"},
       4,
       "int8 is refused"},
      {{"build", chain, "-t", "m", "--quantize", "int8", "--samples", "samples.jsonl", "--min-cosine", "2"},
       2,
       "--min-cosine is '2'; accepted: more than 0, at most 1"},
      {{"build", chain, "-t", "m", "--quantize", "int8", "--samples", "none.npz"}, 7, "none.npz"},
      {{"build", chain, "-t", "m", "--quantize", "int8", "--samples", "encoder"}, 7, "no folders test_data_set_*"},
      {{"build", add, "-t", "m", "--quantize", "int8", "--samples", "samples.jsonl"}, 6, "x"},
      {{"build", chain, "-t", "m", "--samples", "samples.jsonl"}, 2, "give --quantize too"},
      {{"build", chain, "-t", "m", "--min-cosine", "0.9"}, 2, "give --quantize too"},
      {{"build", chain, "-t", "m", "--reduce-range"}, 2, "give --quantize too"},
      {{"build", chain, "-t", "m", "--quantize", "fp16", "--reduce-range", "--samples", "samples.jsonl"},
       2,
       "--reduce-range is about weights of 8 bits"},
      {{"import", "encoder", "-t", "m", "--texts", "samples.jsonl"}, 2, "give --quantize too"},
      {{"import", "encoder", "-t", "m", "--quantize", "int8", "--texts", "a", "--samples", "b"}, 2, "two ways"},
      {{"import", "encoder", "-o", "made", "--quantize", "int8"}, 2, "-t NAME[:TAG]"},
      {{"run", add, "--precision", "any", "-i", "{}"}, 2, "fastest"},
      {{"run", add, "--min-cosine", "0.9", "-i", "{}"}, 2, "--precision any"},
      {{"run", add, "--precision", "int7", "-i", "{}"}, 2, "fp32, tf32, fp16, bf16, int8, int8-bf16, any"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = run(one.arguments);
    EXPECT_EQ(outcome.code, one.code) << one.arguments[0] << ' ' << one.words << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.words));
    if (one.code != 2) {
      EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    }
  }
  EXPECT_EQ(run({"inspect", "m"}).code, 7);
}

// As Optimum and transformers.js leave folders.
TEST_F(Quantize, KeepsWhatLiesBesideTheModel) {
  const fs::path exports = gpux_.folder().path() / "encoder/onnx";
  const auto copy_made = [&](const std::string& precision, const std::string& name) {
    ASSERT_EQ(run({"import", "encoder", "-t", precision, "--quantize", precision}).code, 0);
    const Json info = run({"inspect", precision, "--json"}).json();
    const fs::path model = info.at("model_info").at("path").get<std::string>();
    fs::copy_file(model.parent_path() / precision / "model.onnx", gpux_.folder().path() / name);
  };
  copy_made("int8", "int8.onnx");
  copy_made("fp16", "fp16.onnx");
  fs::rename(gpux_.folder().path() / "int8.onnx", exports / "model_quantized.onnx");
  fs::rename(gpux_.folder().path() / "fp16.onnx", exports / "model_fp16.onnx");
  gpux_.folder().write("encoder/onnx/model_int8.onnx", "no model");
  gpux_.folder().write("encoder/onnx/model_q4.onnx", "no model");

  const auto imported = [&](const Words& more) {
    Words words{"import", "encoder", "-t", "mini", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json().at("variants");
  };
  const auto reasons = [](const Json& variants) {
    std::map<std::string, std::string> reasons;
    for (const Json& one : variants.at("left_out")) reasons[one.at("file")] = one.at("reason");
    return reasons;
  };
  const Json said = imported({});
  std::map<std::string, Json> kept;
  for (const Json& one : said.at("kept")) kept[one.at("precision")] = one;
  ASSERT_TRUE(kept.contains("fp16")) << said;
  EXPECT_EQ(kept.at("fp16").at("file"), "onnx/model_fp16.onnx");
  EXPECT_EQ(kept.at("fp16").at("compared_on"), "64 recorded texts");
  EXPECT_GE(kept.at("fp16").at("mean_cosine"), 0.999);
  EXPECT_THAT(reasons(said).at("onnx/model_q4.onnx"), HasSubstr("no precision"));
  const Json variants = run({"inspect", "mini", "--json"}).json().at("package").at("variants");
  EXPECT_EQ(variants.size(), kept.size());
  if (adds_byte_products_exactly(Machine::this_one())) {
    EXPECT_EQ(kept.at("int8").at("file"), "onnx/model_quantized.onnx");
    EXPECT_THAT(reasons(said).at("onnx/model_int8.onnx"), HasSubstr("is kept for int8"));
    const Json own = vectors_of({}), asked = vectors_of({"--precision", "int8"});
    EXPECT_NE(own.at(0).at("vector"), asked.at(0).at("vector"));
    EXPECT_GT(cosine(own.at(0).at("vector"), asked.at(0).at("vector")), 0.9);

    // One that cannot be used leaves the place to the next.
    fs::rename(exports / "model_int8.onnx", exports / "model_qint8_avx512.onnx");
    EXPECT_THAT(reasons(imported({})).at("onnx/model_qint8_avx512.onnx"), HasSubstr("is not an ONNX model"));
    fs::remove(exports / "model_qint8_avx512.onnx");
    EXPECT_THAT(reasons(imported({"--quantize", "int8"})).at("onnx/model_quantized.onnx"),
                HasSubstr("--quantize int8 makes one"));
  }

  EXPECT_THAT(reasons(imported({"--min-cosine", "1"})).at("onnx/model_fp16.onnx"),
              HasSubstr("on 64 recorded texts is 0.999"));
  gpux_.folder().write("texts.txt", "one\ntwo\n");
  EXPECT_EQ(imported({"--texts", "texts.txt"}).at("kept").at(0).at("compared_on"), "2 texts");

  // Another signature.
  fs::copy_file(GPUX_SOURCE_DIR "/tests/embedding/encoder_variant.onnx", exports / "model_fp16.onnx",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(reasons(imported({})).at("onnx/model_fp16.onnx"), HasSubstr("int32"));

  // What nothing has a use for is refused.
  EXPECT_EQ(run({"import", "encoder", "-t", "mini", "--file", "onnx/model_fp16.onnx", "--texts", "none.txt"}).code, 2);
  gpux_.folder().write("empty.txt", "");
  const Outcome nothing = run({"import", "encoder", "-t", "mini", "--texts", "empty.txt"});
  EXPECT_EQ(nothing.code, 6);
  EXPECT_THAT(nothing.err, HasSubstr("--texts 'empty.txt' holds no text"));

  // The one that is named is the model, and stands alone.
  EXPECT_EQ(imported({"--file", "onnx/model_fp16.onnx"}), (Json{{"kept", Json::array()}, {"left_out", Json::array()}}));
  EXPECT_EQ(run({"inspect", "mini", "--json"}).json().at("package").at("model_file"), "model_fp16.onnx");
  EXPECT_EQ(vectors_of({}).size(), 2U);

  fs::remove(exports / "model.onnx");
  for (const char* file : {"../encoder/onnx/model_fp16.onnx", "/tmp/model.onnx"}) {
    const Outcome outside = run({"import", "encoder", "-t", "mini", "--file", file});
    EXPECT_EQ(outside.code, 2);
    EXPECT_THAT(outside.err, HasSubstr("leads out of 'encoder'"));
  }

  const Outcome several = run({"import", "encoder", "-t", "mini"});
  EXPECT_EQ(several.code, 7);
  EXPECT_THAT(several.err, AllOf(HasSubstr("no model.onnx but onnx/model_fp16.onnx, "), HasSubstr("--file")));
  EXPECT_EQ(run({"import", "encoder", "-t", "mini", "--file", "model.onnx"}).code, 7);
  EXPECT_EQ(run({"import", "encoder", "-o", "made", "--file", "onnx/model_fp16.onnx"}).code, 2);
  for (const char* name : {"model_q4.onnx", "model_quantized.onnx"}) fs::remove(exports / name);
  fs::remove(exports / "model_int8.onnx");
  EXPECT_EQ(run({"import", "encoder", "-t", "mini"}).code, 0);
}

TEST_F(Quantize, TellsPeopleWhatBecameOfIt) {
  const Outcome outcome =
      gpux_.run({"import", "encoder", "-t", "mini", "--quantize", "int8", "-v"}, {.folder = gpux_.folder().path()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::MatchesRegex("stored mini:latest \\([^\n]*\\): 16 dimensions\n"
                                                 "int8 variant: [^\n]* cosine to the model on 64 recorded texts: mean "
                                                 "[^\n]* \\(accepted: 0.98 or more\\)\n"));
  EXPECT_THAT(outcome.err, HasSubstr("saves nothing"));
}

}  // namespace
}  // namespace gpux::test
