#include "checkpoint/sentence_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Files = std::vector<std::pair<std::string, std::string>>;

const std::string modules = R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
  {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])";

/// A folder with these files, beside an ONNX file and a tokenizer that nobody opens here.
class Folder {
 public:
  explicit Folder(const Files& files) {
    folder_.write("tokenizer.json", "{}");
    folder_.write("model.onnx", "");
    for (const auto& [name, text] : files) folder_.write(name, text);
  }

  [[nodiscard]] SentenceModel read() const { return read_sentence_model(folder_.path()); }

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

Error error_of(const Folder& folder) {
  try {
    (void)folder.read();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was refused"};
}

TEST(SentenceModel, PoolsTheMeanWhereNothingIsSaid) {
  const Folder folder(Files{});
  const SentenceModel model = folder.read();
  EXPECT_EQ(model.name, folder.path().filename());
  EXPECT_EQ(model.onnx_file, folder.path() / "model.onnx");
  EXPECT_EQ(model.tokenizer_file, folder.path() / "tokenizer.json");
  EXPECT_THAT(model.poolings, ElementsAre(Pooling::mean));
  EXPECT_TRUE(model.pools_prompt);
  EXPECT_FALSE(model.normalize);
  EXPECT_EQ(model.max_tokens, 0U);
  EXPECT_FALSE(model.truncate_left);
  EXPECT_EQ(model.first_position, 0);
  EXPECT_THAT(model.prompts, IsEmpty());
  EXPECT_EQ(model.default_prompt, "");
}

TEST(SentenceModel, FindsTheFilesBelowItsFolders) {
  const test::TemporaryFolder folder;
  folder.write("0_Transformer/tokenizer.json", "{}");
  folder.write("0_Transformer/sentence_bert_config.json", R"({"max_seq_length": 75})");
  folder.write("onnx/model.onnx", "");
  folder.write("modules.json", R"([{"type": "sentence_transformers.base.modules.transformer.Transformer",
                                    "path": "0_Transformer"},
                                   {"type": "sentence_transformers.models.Normalize", "path": "1_Normalize"}])");
  const SentenceModel model = read_sentence_model(folder.path());
  EXPECT_EQ(model.tokenizer_file, folder.path() / "0_Transformer/tokenizer.json");
  EXPECT_EQ(model.onnx_file, folder.path() / "onnx/model.onnx");
  EXPECT_EQ(model.max_tokens, 75U);
  EXPECT_TRUE(model.normalize);
  EXPECT_THAT(model.poolings, IsEmpty());
}

TEST(SentenceModel, ReadsItsPoolings) {
  struct {
    const char* config;
    std::vector<Pooling> expected;
    bool pools_prompt = true;
  } const cases[]{
      {R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})", {Pooling::cls}},
      {R"({"pooling_mode_mean_sqrt_len_tokens": true})", {Pooling::mean_sqrt_length}},
      {R"({"pooling_mode_weightedmean_tokens": true})", {Pooling::weighted_mean}},
      {R"({"pooling_mode_lasttoken": true, "include_prompt": false})", {Pooling::last_token}, false},
      {R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true, "pooling_mode_cls_token": true})",
       {Pooling::cls, Pooling::max, Pooling::mean}},
      {R"({"pooling_mode_mean_tokens": false})", {Pooling::mean}},
      {R"({"embedding_dimension": 384, "pooling_mode": "lasttoken", "include_prompt": true})", {Pooling::last_token}},
      {R"({"pooling_mode": ["mean", "cls"], "pooling_mode_max_tokens": true})", {Pooling::mean, Pooling::cls}},
  };

  for (const auto& [config, expected, pools_prompt] : cases) {
    const SentenceModel model = Folder(Files{{"modules.json", modules}, {"1_Pooling/config.json", config}}).read();
    EXPECT_EQ(model.poolings, expected) << config;
    EXPECT_EQ(model.pools_prompt, pools_prompt) << config;
    EXPECT_FALSE(model.normalize);
  }
}

TEST(SentenceModel, TakesTheLimitsOfSentenceTransformers) {
  const std::string huge = R"({"model_max_length": 1000000000000000019884624838656})";

  struct {
    Files files;
    std::size_t expected;
    std::int64_t first_position = 0;
  } const cases[]{
      {{{"sentence_bert_config.json", R"({"max_seq_length": 256})"}, {"tokenizer_config.json", huge}}, 256},
      {{{"sentence_bert_config.json", R"({"max_seq_length": null})"},
        {"tokenizer_config.json", R"({"model_max_length": 512})"}},
       512},
      {{{"sentence_bert_config.json", R"({"max_seq_length": 1024})"},
        {"config.json", R"({"model_type": "bert", "max_position_embeddings": 512})"}},
       512},
      {{{"tokenizer_config.json", huge}, {"config.json", R"({"model_type": "xlnet", "max_position_embeddings": -1})"}},
       0},
      {{{"config.json", R"({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1})"}},
       512,
       2},
      {{{"config.json", R"({"model_type": "mpnet", "max_position_embeddings": 514})"}}, 512, 2},
      {{{"config.json", R"({"model_type": "bert", "max_position_embeddings": 514, "pad_token_id": 1})"}}, 514},
      // The limit of sentence-transformers counts in place of the tokenizer's, also where it is larger.
      {{{"sentence_bert_config.json", R"({"max_seq_length": 48})"},
        {"tokenizer_config.json", R"({"model_max_length": 16})"}},
       48},
      {{{"sentence_bert_config.json", R"({"do_lower_case": false})"},
        {"tokenizer_config.json", R"({"model_max_length": 16})"}},
       16},
      {{{"tokenizer_config.json", R"({"max_len": 16})"}}, 16},
      {{{"tokenizer_config.json", R"({"max_len": 16, "model_max_length": 24})"}}, 24},
      {{{"sentence_bert_config.json", R"({"max_seq_length": 48, "tokenizer_args": {"model_max_length": 24}})"}}, 24},
      {{{"sentence_bert_config.json", R"({"max_seq_length": 48, "processing_kwargs": {"text": {"max_length": 20}}})"}},
       20},
      // The older names, in sentence-transformers' order; a file without settings counts as none.
      {{{"sentence_roberta_config.json", R"({"max_seq_length": 40})"},
        {"tokenizer_config.json", R"({"model_max_length": 16})"}},
       40},
      {{{"sentence_xlnet_config.json", R"({"max_seq_length": 41})"}}, 41},
      {{{"sentence_bert_config.json", "{}"}, {"sentence_xlm-roberta_config.json", R"({"max_seq_length": 42})"}}, 42},
      {{{"sentence_bert_config.json", R"({"max_seq_length": 7})"},
        {"sentence_albert_config.json", R"({"max_seq_length": 42})"}},
       7},
      // Positions that are computed are no limit where the folder says another one.
      {{{"sentence_bert_config.json", R"({"max_seq_length": 1024})"},
        {"config.json", R"({"max_position_embeddings": 512, "rope_theta": 10000})"}},
       1024},
      {{{"sentence_bert_config.json", R"({"max_seq_length": 1024})"},
        {"config.json", R"({"max_position_embeddings": 512, "position_embedding_type": "alibi"})"}},
       1024},
      {{{"tokenizer_config.json", R"({"model_max_length": 1024})"},
        {"config.json", R"({"max_position_embeddings": 512, "rope_theta": 10000})"}},
       512},
  };

  for (const auto& [files, expected, first_position] : cases) {
    const SentenceModel model = Folder(files).read();
    EXPECT_EQ(model.max_tokens, expected) << files.front().second;
    EXPECT_EQ(model.first_position, first_position) << files.front().second;
  }
  EXPECT_TRUE(Folder(Files{{"tokenizer_config.json", R"({"truncation_side": "left"})"}}).read().truncate_left);
}

TEST(SentenceModel, ReadsWhatItsOutputsMean) {
  const SentenceModel plain = Folder(Files{}).read();
  EXPECT_FALSE(plain.declares_pooling);
  EXPECT_EQ(plain.architecture, "");
  EXPECT_EQ(plain.vocabulary, 0U);
  const SentenceModel told = Folder(Files{{"modules.json", modules},
                                          {"1_Pooling/config.json", "{}"},
                                          {"config.json", R"({"architectures": ["BertModel"], "vocab_size": 30522})"}})
                                 .read();
  EXPECT_TRUE(told.declares_pooling);
  EXPECT_EQ(told.architecture, "BertModel");
  EXPECT_EQ(told.vocabulary, 30522U);
  EXPECT_EQ(Folder(Files{{"config.json", R"({"model_type": "clip", "text_config": {"vocab_size": 49408}})"}})
                .read()
                .vocabulary,
            49408U);
}

TEST(SentenceModel, ReadsWhatBecomesOfItsVectors) {
  const auto read = [](const std::string& sentences) {
    return Folder(Files{{"config_sentence_transformers.json", sentences}}).read();
  };
  EXPECT_EQ(read("{}").dimensions, 0U);
  EXPECT_EQ(read("{}").similarity, std::nullopt);
  EXPECT_EQ(read(R"({"truncate_dim": 8})").dimensions, 8U);
  EXPECT_EQ(read(R"({"similarity_fn_name": "dot"})").similarity, Similarity::dot);
  EXPECT_EQ(read(R"({"similarity_fn_name": "manhattan"})").similarity, Similarity::manhattan);
  EXPECT_EQ(read(R"({"similarity_fn_name": "maxsim"})").similarity, std::nullopt) << "as sentence-transformers";
  EXPECT_TRUE(read("{}").has_token_types);
  EXPECT_FALSE(Folder(Files{{"tokenizer_config.json", R"({"model_input_names": ["input_ids", "attention_mask"]})"}})
                   .read()
                   .has_token_types);
}

TEST(SentenceModel, RefusesCutsByName) {
  const std::string splade_modules =
      R"([{"path": "", "type": "a.MLMTransformer"}, {"path": "1_SpladePooling", "type": "a.SpladePooling"}])";
  const auto refusal = [&](const std::string& key, const std::string& value) {
    const std::string sentences = "{\"" + key + "\": " + value + "}";
    Files files{{"config_sentence_transformers.json", sentences}, {"config.json", R"({"vocab_size": 30})"}};
    if (key == "max_active_dims") {
      files.emplace_back("modules.json", splade_modules);
      files.emplace_back("1_SpladePooling/config.json", "{}");
    }
    return error_of(Folder(files));
  };
  for (const std::string key : {"truncate_dim", "max_active_dims"}) {
    for (const std::string value : {"0", "-1", "8.0", "1e30", "\"8\"", "true"}) {
      const Error error = refusal(key, value);
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << key << " " << value;
      EXPECT_THAT(error.message(), HasSubstr("config_sentence_transformers.json: " + key + " is "));
      EXPECT_THAT(error.message(), HasSubstr("; accepted: null, a whole number from 1"));
    }
  }
  EXPECT_THAT(refusal("max_active_dims", "31").message(), HasSubstr("max_active_dims is 31; accepted: null, 1 to the "
                                                                    "vocabulary's 30"));
  EXPECT_THAT(refusal("max_active_dims", "30").message(), HasSubstr("nothing was refused"));
}

// As gpux import has it: weights come before ONNX files of other names.
TEST(SentenceModel, TakesTheFileThatImportTakes) {
  const auto file_of = [](const std::vector<std::string>& names) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer.json", "{}");
    for (const std::string& name : names) folder.write(name, "");
    try {
      return read_sentence_model(folder.path()).onnx_file.lexically_relative(folder.path()).string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      return error.message();
    }
  };
  EXPECT_EQ(file_of({"model.onnx", "model_quantized.onnx", "model.safetensors"}), "model.onnx");
  EXPECT_EQ(file_of({"onnx/model.onnx", "other.onnx"}), "onnx/model.onnx");
  EXPECT_EQ(file_of({"onnx/model_quantized.onnx"}), "onnx/model_quantized.onnx");
  EXPECT_THAT(file_of({"onnx/model_quantized.onnx", "model.safetensors"}),
              HasSubstr("has no model.onnx but onnx/model_quantized.onnx: gpux import makes one of its "
                        "model.safetensors"));
  EXPECT_THAT(file_of({"a.onnx", "b.onnx"}), HasSubstr("has no model.onnx but a.onnx, b.onnx: gpux import says"));
}

TEST(SentenceModel, ReadsItsPrompts) {
  const SentenceModel model = Folder(Files{{"config_sentence_transformers.json",
                                            R"({"prompts": {"query": "query: ", "document": "", "none": null},
                                           "default_prompt_name": "query"})"}})
                                  .read();
  EXPECT_THAT(model.prompts, ElementsAre(Pair("document", ""), Pair("query", "query: ")));
  EXPECT_EQ(model.default_prompt, "query: ");
}

TEST(SentenceModel, ReadsTheTasksOfItsAdapters) {
  const std::string config = R"({"lora_adaptations": ["retrieval.query", "separation"],
                                 "task_instructions": {"retrieval.query": "Represent the query: "}})";

  struct Case {
    Files files;
    std::vector<std::pair<std::string, std::string>> prompts;
    std::optional<std::size_t> task;
  };

  const std::vector<Case> cases{
      {{}, {{"retrieval.query", "Represent the query: "}, {"separation", ""}}, std::nullopt},
      {{{"config_sentence_transformers.json", R"({"prompts": {"retrieval.query": "query: ", "other": "o"}})"}},
       {{"other", "o"}, {"retrieval.query", "query: "}, {"separation", ""}},
       std::nullopt},
      {{{"config_sentence_transformers.json", R"({"default_prompt_name": "separation"})"}},
       {{"retrieval.query", "Represent the query: "}, {"separation", ""}},
       1},
      {{{"sentence_bert_config.json", R"({"model_args": {"default_task": "retrieval.query"}})"}},
       {{"retrieval.query", "Represent the query: "}, {"separation", ""}},
       0},
      {{{"sentence_bert_config.json", R"({"model_args": {"default_task": null}})"}},
       {{"retrieval.query", "Represent the query: "}, {"separation", ""}},
       std::nullopt}};
  for (const Case& one : cases) {
    Files files = one.files;
    files.emplace_back("config.json", config);
    const SentenceModel model = Folder(files).read();
    EXPECT_THAT(model.tasks, ElementsAre("retrieval.query", "separation"));
    EXPECT_EQ(model.prompts, one.prompts);
    EXPECT_EQ(model.default_task, one.task);
    EXPECT_EQ(model.task_named("separation"), 1U);
    EXPECT_EQ(model.task_named("query"), std::nullopt);
  }
}

TEST(SentenceModel, RefusesWhatItCannotDoWithTheFilesName) {
  struct {
    const char* file;
    std::string text;
    const char* words;
  } const cases[]{
      {"modules.json", "[", "is not JSON"},
      {"modules.json", "{}", "is no list"},
      {"modules.json", "[]", "has to be a Transformer"},
      {"modules.json", "[3]", "each module needs 'type'"},
      {"modules.json", R"([{"type": "a.Transformer"}])", "each module needs 'path'"},
      {"modules.json", R"([{"type": "a.Pooling", "path": ""}])", "has to be a Transformer"},
      {"modules.json", R"([{"type": "a.Transformer", "path": "../other"}])", "leads out of the folder"},
      {"modules.json", R"([{"type": "a.Transformer", "path": "/etc"}])", "leads out of the folder"},
      {"modules.json", R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Dense", "path": "2_Dense"}])", "'Dense'"},
      {"modules.json", R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Normalize", "path": ""},
                           {"type": "a.Pooling", "path": "1_Pooling"}])",
       "module 2 is 'Pooling'"},
      {"modules.json", modules, "is not there"},
      {"sentence_bert_config.json", "[]", "is no object"},
      {"sentence_bert_config.json", R"({"max_seq_length": "many"})", "max_seq_length is \"many\"; accepted"},
      {"sentence_bert_config.json", R"({"max_seq_length": 1.5})", "max_seq_length is 1.5; accepted"},
      {"sentence_bert_config.json", R"({"processing_kwargs": {"text": {"padding": 5}}})",
       "processing_kwargs.text.padding is 5; accepted: true, false, longest"},
      {"tokenizer_config.json", std::string(64, '[') + std::string(64, ']'), "nested deeper"},
      {"tokenizer_config.json", R"({"truncation_side": "middle"})", "accepted: left, right"},
      {"config.json", R"({"model_type": 7})", "model_type is 7"},
      {"config.json", R"({"vocab_size": "many"})", "vocab_size is \"many\""},
      {"config.json", R"({"pad_token_id": 4294967297})", "pad_token_id is 4294967297; accepted: the id of a token"},
      {"config.json", R"({"model_type": "roberta", "pad_token_id": 18446744073709551615})",
       "pad_token_id is 18446744073709551615; accepted: the id of a token"},
      {"config.json", R"({"model_type": "siglip", "text_config": 7})", "text_config is 7; accepted: an object"},
      {"config.json", R"({"model_type": "siglip", "text_config": {"pad_token_id": "0"}})",
       "text_config.pad_token_id is \"0\""},
      {"config.json", R"({"model_type": "siglip", "text_config": {"max_position_embeddings": 1000000000}})",
       "each text is padded to 1000000000 tokens; accepted: up to 131072"},
      {"config_sentence_transformers.json",
       R"({"model_type": "MultiVectorEncoder", "query_expansion": {"length": 1000000000}})",
       "query_expansion.length is 1000000000; accepted: 1 to 131072"},
      {"config_sentence_transformers.json", R"({"model_type": "ColBERT", "query_length": 1000000000})",
       "query_length is 1000000000; accepted: up to 131072"},
      {"config.json", R"({"lora_adaptations": []})", "a list of names"},
      {"config.json", R"({"lora_adaptations": "separation"})", "a list of names"},
      {"config.json", R"({"lora_adaptations": ["a", "a"]})", "a list of different names"},
      {"config.json", R"({"lora_adaptations": ["a", 1]})", "a list of different names"},
      {"config.json", R"({"lora_adaptations": ["a"], "task_instructions": {"a": 1}})", "task_instructions.a is 1"},
      {"config_sentence_transformers.json", R"({"prompts": ["a"]})", "an object of texts"},
      {"config_sentence_transformers.json", R"({"prompts": {"query": 1}})", "prompts.query is 1"},
      {"config_sentence_transformers.json", R"({"default_prompt_name": "query"})", "no such prompt"},
  };

  for (const auto& [file, text, words] : cases) {
    const Error error = error_of(Folder(Files{{file, text}}));
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << text;
    EXPECT_THAT(error.message(), HasSubstr(words)) << text;
    const std::string to_blame = text == modules ? "1_Pooling/config.json" : file;
    EXPECT_THAT(error.message(), HasSubstr("/" + to_blame + ": ")) << text;
  }
  const std::string dense = modules.substr(0, modules.size() - 1) + R"(, {"type": "a.Dense", "path": "2_Dense"}])";
  for (const auto& [config, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not there"},
           {R"({"in_features": 0, "out_features": 2})", "in_features is 0"},
           {R"({"in_features": 2, "out_features": -3})", "out_features is"},
           {R"({"in_features": 2, "out_features": 2, "activation_function": "torch.nn.Mish"})",
            "activation_function is \"torch.nn.Mish\"; accepted: Identity"},
           {R"({"in_features": 2, "out_features": 2})", "has no model.safetensors"}}) {
    Files files{{"modules.json", dense}, {"1_Pooling/config.json", "{}"}};
    if (!config.empty()) files.emplace_back("2_Dense/config.json", config);
    EXPECT_THAT(error_of(Folder(files)).message(), HasSubstr(words)) << config;
  }
  for (const char* config :
       {R"({"pooling_mode": "median"})", R"({"pooling_mode": 3})", R"({"pooling_mode": [null]})",
        R"({"pooling_mode": []})", R"({"pooling_mode_cls_token": 1})", R"({"include_prompt": "no"})"}) {
    const Error error = error_of(Folder(Files{{"modules.json", modules}, {"1_Pooling/config.json", config}}));
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << config;
    EXPECT_THAT(error.message(), HasSubstr("1_Pooling/config.json: ")) << config;
  }
}

TEST(SentenceModel, SaysWhatItLookedFor) {
  const auto message_of = [](const std::filesystem::path& folder) {
    try {
      (void)read_sentence_model(folder);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found) << error.message();
      return error.message();
    }
    return std::string();
  };
  const test::TemporaryFolder folder;
  EXPECT_THAT(message_of(folder.path() / "none"), HasSubstr("there is no folder"));
  EXPECT_THAT(message_of(folder.path()), HasSubstr("looked for tokenizer.json"));
  folder.write("tokenizer.json", "{}");
  EXPECT_THAT(message_of(folder.path()), HasSubstr("looked for model.onnx, onnx/model.onnx"));
}

}  // namespace
}  // namespace gpux::checkpoint
