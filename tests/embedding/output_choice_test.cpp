#include "embedding/output_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::embedding {
namespace {

using testing::HasSubstr;
using Outputs = std::vector<SignatureEntry>;

constexpr std::int64_t open = -1;  // a size that the file leaves open

SignatureEntry output(std::string name, std::vector<std::int64_t> sizes, ElementType element = ElementType::float32) {
  SignatureEntry entry;
  entry.name = std::move(name);
  entry.type.kind = ValueKind::tensor;
  entry.type.element = element;
  entry.type.dimensions.emplace();
  for (const std::int64_t size : sizes) {
    entry.type.dimensions->push_back({.size = size == open ? std::nullopt : std::optional(size), .name = {}});
  }
  return entry;
}

SignatureEntry of_text(std::string name, std::int64_t width = 768) {
  return output(std::move(name), {open, width});
}

SignatureEntry of_tokens(std::string name, std::int64_t width = 768) {
  return output(std::move(name), {open, open, width});
}

SignatureEntry of_unknown_rank(std::string name) {
  SignatureEntry entry = output(std::move(name), {});
  entry.type.dimensions.reset();
  return entry;
}

constexpr std::uint64_t vocabulary = 30522;
const OutputFacts plain{.vocabulary = vocabulary};
const OutputFacts pooling{.declares_pooling = true, .vocabulary = vocabulary};
const OutputFacts no_pooling{.can_pool = false, .vocabulary = vocabulary};

OutputFacts of_architecture(std::string name) {
  return {.architecture = std::move(name), .vocabulary = vocabulary};
}

TEST(OutputChoice, TakesTheVectorOfTheText) {
  struct {
    const char* model;
    Outputs outputs;
    OutputFacts facts;
    const char* name;
    bool is_pooled;
    const char* token_vectors;
    bool is_known = true;
  } const cases[]{
      {"BERT",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       plain,
       "last_hidden_state",
       false,
       "last_hidden_state"},
      {"BERT with several hidden states",
       {of_tokens("hidden_states.0"), of_tokens("hidden_states.1"), of_tokens("last_hidden_state")},
       plain,
       "last_hidden_state",
       false,
       "last_hidden_state"},
      {"sentence-transformers",
       {of_tokens("token_embeddings"), of_text("sentence_embedding")},
       pooling,
       "sentence_embedding",
       true,
       "token_embeddings"},
      {"float16",
       {output("last_hidden_state", {open, open, 768}, ElementType::float16)},
       plain,
       "last_hidden_state",
       false,
       "last_hidden_state"},
      {"BGE-M3",
       {of_text("dense_vecs", 1024), of_tokens("sparse_vecs", 1), of_tokens("colbert_vecs", 1024)},
       plain,
       "dense_vecs",
       true,
       ""},
      {"BGE-M3 with widths left open",
       {of_tokens("sparse_vecs", open), of_tokens("colbert_vecs", open), of_text("dense_vecs", open)},
       pooling,
       "dense_vecs",
       true,
       ""},
      {"BGE-M3 of another exporter",
       {of_text("dense_embeddings", 1024), of_tokens("sparse_weights", 1), of_tokens("colbert_vectors", 1024)},
       pooling,
       "dense_embeddings",
       true,
       ""},
      {"CLIP",
       {of_text("text_embeds", 512), of_tokens("last_hidden_state", 512)},
       of_architecture("CLIPTextModelWithProjection"),
       "text_embeds",
       true,
       "last_hidden_state"},
      {"CLIP without config.json",
       {of_tokens("last_hidden_state", 512), of_text("text_embeds", 512)},
       plain,
       "text_embeds",
       true,
       "last_hidden_state"},
      {"CLIP without projection",
       {of_tokens("last_hidden_state", 512), of_text("pooler_output", 512)},
       of_architecture("CLIPTextModel"),
       "pooler_output",
       true,
       "last_hidden_state"},
      {"SigLIP",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       of_architecture("SiglipTextModel"),
       "pooler_output",
       true,
       "last_hidden_state"},
      {"DPR",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       of_architecture("DPRQuestionEncoder"),
       "pooler_output",
       true,
       "last_hidden_state"},
      {"DPR as exported alone", {of_text("pooler_output")}, plain, "pooler_output", true, ""},
      {"a folder's Pooling over an architecture",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       {.declares_pooling = true, .architecture = "DPRContextEncoder", .vocabulary = vocabulary},
       "last_hidden_state",
       false,
       "last_hidden_state"},
      {"a folder's Pooling over text_embeds",
       {of_tokens("last_hidden_state"), of_text("text_embeds")},
       pooling,
       "last_hidden_state",
       false,
       "last_hidden_state"},
      {"text_embeds of tokens",
       {of_tokens("text_embeds", 1024), of_text("13049", 1024)},
       plain,
       "text_embeds",
       false,
       "text_embeds",
       false},
      {"a name of the exporter's", {of_text("1250"), of_tokens("1234")}, plain, "1234", false, "1234", false},
      {"a masked language model that gives its hidden state too",
       {of_tokens("logits", vocabulary), of_tokens("1234")},
       of_architecture("BertForMaskedLM"),
       "1234",
       false,
       "1234",
       false},
      {"no Pooling, and one vector", {of_text("text_embeds")}, no_pooling, "text_embeds", true, ""},
      {"ranks left open",
       {of_unknown_rank("other"), of_unknown_rank("last_hidden_state")},
       plain,
       "last_hidden_state",
       false,
       "last_hidden_state"},
  };

  for (const auto& one : cases) {
    SCOPED_TRACE(one.model);
    const OutputChoice choice = choose_output(one.outputs, one.facts);
    EXPECT_EQ(choice.name, one.name);
    EXPECT_EQ(choice.is_pooled, one.is_pooled);
    EXPECT_EQ(choice.token_vectors, one.token_vectors);
    EXPECT_EQ(choice.is_known, one.is_known);
  }
}

TEST(OutputChoice, RefusesWhatIsNoVectorOfATextAndSaysWhatItMet) {
  struct {
    const char* model;
    Outputs outputs;
    OutputFacts facts;
    std::vector<std::string> says;
  } const cases[]{
      {"masked language model",
       {of_tokens("logits", vocabulary)},
       of_architecture("BertForMaskedLM"),
       {"no output holds vectors of texts", "logits", "(scores)", "accepted: sentence_embedding"}},
      {"its logits under another name", {of_tokens("output", vocabulary)}, plain, {"(scores of the vocabulary)"}},
      {"padded to a multiple", {of_tokens("1234", 30528)}, plain, {"(scores of the vocabulary)"}},
      {"with the width left open", {of_tokens("prediction_logits", open)}, plain, {"(scores)"}},
      {"only sparse weights", {of_tokens("sparse_vecs", 1)}, plain, {"(weights of words)"}},
      {"one number per token", {of_tokens("weights", 1)}, plain, {"(one number per token)"}},
      {"late interaction", {of_tokens("colbert_vecs", 128)}, plain, {"(vectors for late interaction)"}},
      {"several that may be", {of_tokens("a"), of_tokens("b")}, plain, {"several outputs may hold"}},
      {"a classifier", {of_text("logits", 2)}, plain, {"no output holds vectors of texts; the model has logits"}},
      {"CLIP whose projection is missing",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       of_architecture("CLIPModel"),
       {"config.json's CLIPModel is its output 'text_embeds' of rank 2"}},
      {"no Pooling",
       {of_tokens("last_hidden_state"), of_text("pooler_output")},
       no_pooling,
       {"modules.json names no Pooling"}},
      {"a Pooling, and nothing to pool", {of_text("pooler_output")}, pooling, {"no output holds vectors of texts"}},
      {"integers", {output("last_hidden_state", {open, open, 768}, ElementType::int64)}, plain, {"no output holds"}},
      {"nothing", {}, plain, {"no output holds"}},
  };

  for (const auto& one : cases) {
    SCOPED_TRACE(one.model);
    try {
      ADD_FAILURE() << choose_output(one.outputs, one.facts).name << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      for (const std::string& words : one.says) EXPECT_THAT(error.message(), HasSubstr(words));
    }
  }
}

TEST(OutputChoice, KnowsWidthsThatNoVectorHas) {
  EXPECT_EQ(width_problem(1, 0), "one number per token");
  EXPECT_EQ(width_problem(30522, 30522), "scores of the vocabulary");
  EXPECT_EQ(width_problem(30521, 30522), "");
  EXPECT_EQ(width_problem(768, 0), "");
}

}  // namespace
}  // namespace gpux::embedding
