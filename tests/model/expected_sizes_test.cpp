#include "model/expected_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "provider/shape_profile.h"

namespace gpux {
namespace {

using test::TemporaryFolder;

SignatureEntry entry(const std::string& name, std::vector<Dimension> dimensions,
                     ElementType element = ElementType::int64) {
  ValueType type;
  type.element = element;
  type.dimensions = std::move(dimensions);
  return {.name = name, .type = type, .required = true, .description = {}};
}

const Dimension batch{{}, "batch"}, sequence{{}, "sequence"}, three{3, ""}, free_size{{}, ""};

Signature text_encoder() {
  Signature signature;
  signature.inputs = {entry("input_ids", {batch, sequence}), entry("attention_mask", {batch, sequence})};
  signature.outputs = {entry("last_hidden_state", {batch, sequence, three}, ElementType::float32)};
  return signature;
}

Signature classifier() {
  Signature signature;
  signature.inputs = {entry("image", {batch, three, free_size, free_size}, ElementType::float32)};
  signature.outputs = {entry("scores", {batch, three}, ElementType::float32)};
  return signature;
}

// A first dimension that is no batch.
Signature recurrent() {
  Signature signature;
  signature.inputs = {entry("x", {free_size, three}, ElementType::float32),
                      entry("state", {three}, ElementType::float32)};
  signature.outputs = {entry("y", {free_size, three}, ElementType::float32)};
  return signature;
}

SizeFacts texts(std::size_t max_tokens) {
  return {.rows_from = {}, .reads_texts = true, .max_tokens = max_tokens, .declared = {}, .warm_up = {}};
}

TEST(ExpectedSizes, AreAProfileWhereAllIsKnown) {
  SizeFacts with_rows = texts(8192);
  with_rows.max_rows = 4;
  with_rows.rows_from = "serving.batch_size";
  SizeFacts filled = texts(64);
  filled.fills_up = true;
  SizeFacts warm = texts(256);
  warm.warm_up = {{{"batch", 1}, {"sequence", 16}}, {{"batch", 8}, {"input_ids.1", 32}}, {{"batch", 999}}};
  SizeFacts images;
  images.max_rows = 32;
  images.rows_from = "serving.batch_size";
  images.images = {.input = "image", .height_dimension = 2, .width_dimension = 3, .height = 224, .width = 160};
  SizeFacts without_rows = images;
  without_rows.max_rows.reset();
  SizeFacts declared;
  declared.max_rows = 2;
  declared.rows_from = "--max-batch-size";
  declared.declared = {{"image", 2, 8}, {"image", 3, 9}, {"nothing", 0, 1}, {"image", 1, 7}};
  SizeFacts rows_alone;
  rows_alone.max_rows = 8;

  struct Case {
    const char* what;
    Signature signature;
    SizeFacts facts;
    const char* profile;
    const char* reason;  // where it is from, or why there is none
  };

  const Case cases[] = {
      {"texts", text_encoder(), texts(256), "input_ids:1x1..64x128..128x256,attention_mask:1x1..64x128..128x256",
       "runs of up to 128 texts, texts of up to 256 tokens"},
      {"short texts", text_encoder(), texts(32), "input_ids:1x1..128x32..128x32,attention_mask:1x1..128x32..128x32",
       "runs of up to 128 texts, texts of up to 32 tokens"},
      {"long texts", text_encoder(), texts(8192), "",
       "128 texts of 8192 tokens would take the memory of 1048576 tokens, and no serving.batch_size says that there "
       "are fewer"},
      {"few long texts", text_encoder(), with_rows, "input_ids:1x1..4x128..4x8192,attention_mask:1x1..4x128..4x8192",
       "serving.batch_size, texts of up to 8192 tokens"},
      {"texts of any length", text_encoder(), texts(0), "", "nothing says how long a text becomes"},
      {"texts of one length", text_encoder(), filled,
       "input_ids:1x64..128x64..128x64,attention_mask:1x64..128x64..128x64",
       "runs of up to 128 texts, texts of up to 64 tokens"},
      {"texts that a server runs first", text_encoder(), warm,
       "input_ids:1x1..64x32..128x256,attention_mask:1x1..64x16..128x256",
       "runs of up to 128 texts, texts of up to 256 tokens"},
      {"no texts", text_encoder(), {}, "", "nothing says how large dimension 0 (batch) of input 'input_ids' becomes"},
      {"images", classifier(), images, "image:1x3x224x160..32x3x224x160..32x3x224x160",
       "serving.batch_size, images of 160 by 224"},
      {"images without rows", classifier(), without_rows, "",
       "nothing says how large dimension 0 (batch) of input 'image' becomes"},
      {"declared sizes", classifier(), declared, "image:1x3x8x9..2x3x8x9..2x3x8x9", "--max-batch-size, gpux.yml"},
      {"rows that are no batch", recurrent(), rows_alone, "",
       "nothing says how large dimension 0 of input 'x' becomes"},
  };
  for (const Case& one : cases) {
    const provider::DerivedProfile derived =
        provider::derive_shape_profile(one.signature, expected_sizes(one.signature, one.facts));
    EXPECT_EQ(provider::profile_text(derived.ranges), one.profile) << one.what;
    EXPECT_EQ(derived.ranges.empty() ? derived.unknown : derived.from, one.reason) << one.what;
  }
}

TEST(SizeFacts, AreReadFromTheFilesNextToTheModel) {
  const TemporaryFolder folder;
  LocatedModel located;
  located.onnx_file = folder.write("model.onnx", "");
  EXPECT_FALSE(size_facts(located, text_encoder()).reads_texts) << "no tokenizer";
  folder.write("tokenizer.json", "{}");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 128})");
  SizeFacts facts = size_facts(located, text_encoder());
  EXPECT_TRUE(facts.reads_texts);
  EXPECT_EQ(facts.max_tokens, 128U);
  EXPECT_FALSE(size_facts(located, classifier()).reads_texts) << "no input takes tokens";

  ProjectFile project;
  project.file = folder.path() / "gpux.yml";
  project.runtime.batch_size = 16;
  project.text.max_tokens = 64;
  project.inputs = {DeclaredValue{.name = "image", .type = entry("image", {batch, three, {8, ""}, free_size}).type}};
  located.project = project;
  facts = size_facts(located, text_encoder());
  EXPECT_EQ(facts.max_tokens, 64U);
  EXPECT_EQ(facts.max_rows, 16);
  EXPECT_EQ(facts.rows_from, "runtime.batch_size");
  ASSERT_EQ(facts.declared.size(), 2U);
  EXPECT_EQ(facts.declared.back().dimension, 2U);
  EXPECT_EQ(facts.declared.back().size, 8);
  located.project->serving.batch_size = 4;
  located.project->image_recipe = image::Recipe{};
  located.project->image_recipe->resize = image::Resize{.size = {24, 32}};
  facts = size_facts(located, classifier());
  EXPECT_EQ(facts.rows_from, "serving.batch_size");
  ASSERT_TRUE(facts.images);
  EXPECT_EQ(facts.images->height, 24);
  EXPECT_EQ(facts.images->width_dimension, 3U);
  // A shorter side says nothing of the longer one.
  located.project->image_recipe->resize->fit = image::Fit::shortest;
  EXPECT_FALSE(size_facts(located, classifier()).images);
}

}  // namespace
}  // namespace gpux
