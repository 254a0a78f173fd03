// gpux import of models that generate text: quantized weights, context lengths, and folders of other tools.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path generation = GPUX_SOURCE_DIR "/tests/generation";

class DecoderImport : public testing::Test {
 protected:
  Program gpux_;
};

TEST_F(DecoderImport, ReportsWhatQuantizedWeightsChange) {
  const fs::path source = generation / "references/qwen3";
  const Outcome outcome = gpux_.run({"import", source, "-t", "tiny", "--quantize", "int8"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("int8: perplexity "));
  EXPECT_THAT(outcome.out, HasSubstr(" positions of 64 recorded texts"));

  gpux_.folder().write("text", "w1 w2 w3 w4 w5 w6 w7 w8 w9");
  const Outcome of_text = gpux_.run({"import", source, "-t", "tiny", "--quantize", "int8", "--quantize-block", "128",
                                     "--texts", gpux_.folder().path() / "text", "--json"});
  ASSERT_EQ(of_text.code, 0) << of_text.err;
  const Json said = Json::parse(of_text.out).at("quantization");
  EXPECT_EQ(said.at("precision"), "int8");
  EXPECT_EQ(said.at("positions"), 9);
  EXPECT_GT(said.at("perplexity"), 1);
  EXPECT_GT(said.at("same_token"), 0.5);
}

TEST_F(DecoderImport, RefusesToQuantizeGgufFiles) {
  const fs::path source = GPUX_SOURCE_DIR "/tests/importer/gguf/llama-q4_0.gguf";
  for (const char* precision : {"int4", "int8", "fp16"}) {
    const Outcome outcome = gpux_.run({"import", source, "-t", "tiny", "--quantize", precision});
    EXPECT_EQ(outcome.code, 2) << precision;
    EXPECT_THAT(outcome.err, HasSubstr("is a GGUF file, which keeps the precision of its weights"));
  }
  EXPECT_EQ(gpux_.run({"inspect", "tiny"}).code, 7);
}

// Wherever transformers reads them from.
TEST_F(DecoderImport, KeepsAllChatTemplates) {
  const fs::path source = gpux_.folder().path() / "source", made = gpux_.folder().path() / "made";
  fs::copy(generation / "references/qwen3", source);
  fs::create_directory(source / "additional_chat_templates");
  for (const char* name : {"chat_template.jinja", "chat_template.json", "additional_chat_templates/tool_use.jinja"}) {
    gpux_.folder().write(std::string("source/") + name, name);
  }
  const Outcome outcome = gpux_.run({"import", source, "-o", made, "-t", "tiny"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const fs::path stored = Json::parse(gpux_.run({"inspect", "tiny", "--json"}).out).at("model_info").at("path");
  for (const fs::path& folder : {made, stored.parent_path()}) {
    for (const char* name : {"chat_template.jinja", "chat_template.json", "additional_chat_templates/tool_use.jinja"}) {
      EXPECT_TRUE(fs::is_regular_file(folder / name)) << folder << " " << name;
    }
  }
}

TEST_F(DecoderImport, StoresNothingThatIsRefused) {
  const fs::path made = gpux_.folder().path() / "made";
  const Outcome outcome = gpux_.run({"import", generation / "references/qwen3", "-o", made, "-t", "tiny", "--quantize",
                                     "int4", "--max-perplexity-ratio", "0.5"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("int4 is refused: the perplexity of 64 recorded texts is "));
  EXPECT_THAT(outcome.err, HasSubstr("accepted: up to 0.5 times (--max-perplexity-ratio)"));
  EXPECT_FALSE(fs::exists(made));
  EXPECT_EQ(gpux_.run({"generate", "tiny", "w1"}).code, 7);
}

TEST_F(DecoderImport, TakesTheContextOfShortTextsOrALongerOne) {
  const fs::path source = generation / "references/phi4-mini";
  const Outcome outcome = gpux_.run({"import", source, "-t", "phi"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("at most 560 tokens"));
  EXPECT_THAT(outcome.err, HasSubstr("the model takes 640 with other positions: --context-length 640"));
  const Outcome longer = gpux_.run({"import", source, "-t", "phi", "--context-length", "640"});
  EXPECT_THAT(longer.out, HasSubstr("at most 640 tokens"));
  const Outcome beyond = gpux_.run({"import", source, "-t", "phi", "--context-length", "641"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--context-length is 641; accepted: 1 to 640, the model's"));
  const Outcome shorter = gpux_.run({"import", generation / "references/gpt2", "-t", "gpt2", "--context-length", "8"});
  ASSERT_EQ(shorter.code, 0) << shorter.err;
  const Outcome too_long = gpux_.run({"generate", "gpt2", "w1 w2 w3 w4 w5 w6 w7 w8"});
  EXPECT_EQ(too_long.code, 6);
  EXPECT_THAT(too_long.err, HasSubstr("the prompt has 9 tokens; accepted: fewer than the 8 of the context"));
}

TEST_F(DecoderImport, StoresFoldersOfOtherTools) {
  for (const char* name : {"genai", "optimum"}) {
    const fs::path folder = generation / "folders" / name;
    const Outcome outcome = gpux_.run({"import", folder, "-t", name});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("text-generation"));
    const Outcome stored = gpux_.run({"generate", name, "w1 w2", "--max-tokens", "5", "--ignore-eos"});
    EXPECT_EQ(stored.code, 0) << stored.err;
    EXPECT_EQ(stored.out, gpux_.run({"generate", folder, "w1 w2", "--max-tokens", "5", "--ignore-eos"}).out);
  }
  EXPECT_THAT(gpux_.run({"generate", "optimum", "w1", "--max-tokens", "1"}).err,
              HasSubstr("keys and values are copied at each step"));
  for (const auto& [flag, value] : {std::pair("--context-length", "7"), std::pair("--quantize", "int4")}) {
    const Outcome refused = gpux_.run({"import", generation / "folders/genai", "-t", "genai", flag, value});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("ONNX already"));
  }
}

TEST_F(DecoderImport, NamesTheFilesThatItFound) {
  const fs::path folder = gpux_.folder().path() / "merged";
  fs::copy(generation / "folders/optimum", folder);
  fs::rename(folder / "model.onnx", folder / "decoder_model_merged.onnx");
  const Outcome outcome = gpux_.run({"import", folder, "-t", "merged"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err,
              HasSubstr("has no model.onnx; found: decoder_model_merged.onnx; --file names the ONNX file"));
  const Outcome named = gpux_.run({"import", folder, "-t", "merged", "--file", "decoder_model_merged.onnx"});
  EXPECT_EQ(named.code, 0) << named.err;
}

}  // namespace
}  // namespace gpux::test
