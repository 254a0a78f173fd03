#include "registry/hub/file_choice.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::registry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

// The repository of all-MiniLM-L6-v2.
const Names minilm{".gitattributes",
                   "1_Pooling/config.json",
                   "README.md",
                   "config.json",
                   "config_sentence_transformers.json",
                   "data_config.json",
                   "model.safetensors",
                   "modules.json",
                   "onnx/model.onnx",
                   "onnx/model_O3.onnx",
                   "onnx/model_qint8_arm64.onnx",
                   "onnx/model_quint8_avx2.onnx",
                   "openvino/openvino_model.bin",
                   "openvino/openvino_model.xml",
                   "pytorch_model.bin",
                   "rust_model.ot",
                   "sentence_bert_config.json",
                   "special_tokens_map.json",
                   "tf_model.h5",
                   "tokenizer.json",
                   "tokenizer_config.json",
                   "train_script.py",
                   "vocab.txt"};

FileRequest with_modules(std::set<std::string, std::less<>> folders, std::set<std::string, std::less<>> parts = {}) {
  FileRequest request;
  request.layout = {std::move(folders), std::move(parts)};
  return request;
}

TEST(FileChoice, TakesTheOnnxFileTheTokenizerAndTheSettings) {
  const FileChoice choice = choose_files(minilm, with_modules({"1_Pooling"}), "hf.co/x");
  EXPECT_EQ(choice.model_file, "onnx/model.onnx");
  EXPECT_THAT(choice.files,
              ElementsAre("1_Pooling/config.json", "config.json", "config_sentence_transformers.json",
                          "data_config.json", "modules.json", "onnx/model.onnx", "sentence_bert_config.json",
                          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"));
}

TEST(FileChoice, FollowsTheTable) {
  struct Row {
    Names names;
    FileRequest request;
    std::string model_file;
    Names files;
  };

  for (const Row& row : std::vector<Row>{
           {{"model.onnx", "model.onnx_data", "model.onnx_data_1", "other.onnx_data"},
            {},
            "model.onnx",
            {"model.onnx", "model.onnx_data", "model.onnx_data_1"}},
           {{"a.onnx", "a.data", "b/a.data"}, {}, "a.onnx", {"a.data", "a.onnx"}},
           {{"a.onnx", "model.safetensors"}, {}, "", {"model.safetensors"}},
           {{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
             "pytorch_model.bin.index.json", "model.fp16.safetensors"},
            with_modules({}, {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}),
            "",
            {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}},
           // The index counts, and not the usual names of parts; a whole file is not downloaded twice.
           {{"a.safetensors", "b.safetensors", "model-00001-of-00001.safetensors", "model.safetensors.index.json"},
            with_modules({}, {"a.safetensors", "b.safetensors"}),
            "",
            {"a.safetensors", "b.safetensors", "model.safetensors.index.json"}},
           {{"model-00001-of-00001.safetensors", "model.safetensors", "model.safetensors.index.json"},
            {},
            "",
            {"model.safetensors"}},
           {{"model.safetensors", "2_Dense_1024/model.safetensors", "2_Dense_1024/config.json",
             "2_Dense_256/config.json", "2_Dense_256/model.safetensors", "2_Dense_8/pytorch_model.bin",
             "pooling/config.json", "pooling/vocab.txt"},
            with_modules({"2_Dense_1024", "pooling"}),
            "",
            {"2_Dense_1024/config.json", "2_Dense_1024/model.safetensors", "model.safetensors", "pooling/config.json",
             "pooling/vocab.txt"}},
           {{"model.safetensors", "2_Dense/model.safetensors", "2_Dense/config.json", "2_Dense/pytorch_model.bin"},
            with_modules({"2_Dense"}),
            "",
            {"2_Dense/config.json", "2_Dense/model.safetensors", "model.safetensors"}},
           {{"onnx/model.onnx", "2_Dense/model.safetensors"},
            with_modules({"2_Dense"}),
            "onnx/model.onnx",
            {"2_Dense/model.safetensors", "onnx/model.onnx"}},
           {{"onnx/model.onnx", "onnx/model_fp16.onnx"},
            {.precision = "fp16"},
            "onnx/model_fp16.onnx",
            {"onnx/model_fp16.onnx"}},
           {{"onnx/model.onnx", "onnx/model_quint8_avx2.onnx", "onnx/model_qint8_arm64.onnx"},
            {.precision = "int8"},
            "onnx/model_quint8_avx2.onnx",
            {"onnx/model_quint8_avx2.onnx"}},
           {{"onnx/model.onnx", "onnx/model_qint8_arm64.onnx"},
            {.precision = "int8", .is_x86 = false},
            "onnx/model_qint8_arm64.onnx",
            {"onnx/model_qint8_arm64.onnx"}},
           {{"model.onnx", "onnx/model_fp16.onnx"}, {.precision = "fp32"}, "model.onnx", {"model.onnx"}},
           {{"cpu/deep/x.onnx", "cpu/deep/x.onnx.data"},
            {.file = "cpu/deep/x.onnx"},
            "cpu/deep/x.onnx",
            {"cpu/deep/x.onnx", "cpu/deep/x.onnx.data"}},
           {{"model.safetensors", "sparse_linear.safetensors", "colbert_linear.safetensors", "colbert_linear.pt"},
            {},
            "",
            {"colbert_linear.safetensors", "model.safetensors", "sparse_linear.safetensors"}},
           {{"onnx/model.onnx", "onnx/model.onnx_data", "sparse_linear.safetensors", "sparse_linear.pt"},
            {},
            "onnx/model.onnx",
            {"onnx/model.onnx", "onnx/model.onnx_data"}},
           {{"onnx/model.onnx", "onnx/text_model.onnx", "onnx/vision_model.onnx", "onnx/vision_model.onnx_data",
             "onnx/text_model_fp16.onnx", "preprocessor_config.json"},
            {},
            "onnx/text_model.onnx",
            {"onnx/text_model.onnx", "onnx/vision_model.onnx", "onnx/vision_model.onnx_data",
             "preprocessor_config.json"}},
           {{"onnx/model.onnx", "onnx/text_model.onnx"}, {}, "onnx/model.onnx", {"onnx/model.onnx"}},
           {{"model.safetensors", "config.json", "generation_config.json", "preprocessor_config.json",
             "processor_config.json", "chat_template.json", "chat_template.jinja", "0_Transformer/config.json",
             "0_Transformer/model.safetensors", "1_Pooling/config.json", "2_Dense/config.json",
             "2_Dense/model.safetensors", "3_Normalize/config.json", "1_SpladePooling/config.json",
             "onnx/quantize_config.json", "images/a.json", "video_preprocessor_config.json", "README.md"},
            with_modules({"0_Transformer", "1_Pooling", "1_SpladePooling", "2_Dense", "3_Normalize"}),
            "",
            {"0_Transformer/config.json", "0_Transformer/model.safetensors", "1_Pooling/config.json",
             "1_SpladePooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
             "3_Normalize/config.json", "chat_template.jinja", "chat_template.json", "config.json",
             "generation_config.json", "model.safetensors", "preprocessor_config.json", "processor_config.json",
             "video_preprocessor_config.json"}},
           {{"model.safetensors", "chat_template.jinja", "additional_chat_templates/tool.jinja", "spiece.model",
             "merges.txt", "requirements.txt", "trainer_state.json"},
            {},
            "",
            {"additional_chat_templates/tool.jinja", "chat_template.jinja", "merges.txt", "model.safetensors",
             "spiece.model"}},
       }) {
    const FileChoice choice = choose_files(row.names, row.request, "hf.co/x");
    EXPECT_EQ(choice.model_file, row.model_file);
    EXPECT_EQ(choice.files, row.files);
  }
}

TEST(FileChoice, TakesOneGgufFile) {
  const Names files{"config.json",
                    "x-BF16.gguf",
                    "x-IQ4_NL.gguf",
                    "x-Q4_K_M.gguf",
                    "x-UD-Q4_K_M.gguf",
                    "x.Q5_K_S.gguf",
                    "mmproj-F16.gguf",
                    "q4_0.gguf",
                    "Q8_0/x-Q8_0-00001-of-00002.gguf",
                    "Q8_0/x-Q8_0-00002-of-00002.gguf"};
  for (const auto& [quantization, file] :
       std::vector<std::pair<std::string, std::string>>{{"", "x-Q4_K_M.gguf"},
                                                        {"q4_k_m", "x-Q4_K_M.gguf"},
                                                        {"UD-Q4_K_M", "x-UD-Q4_K_M.gguf"},
                                                        {"IQ4_NL", "x-IQ4_NL.gguf"},
                                                        {"Q5_K_S", "x.Q5_K_S.gguf"},
                                                        {"Q4_0", "q4_0.gguf"},
                                                        {"BF16", "x-BF16.gguf"}}) {
    const FileChoice choice = choose_files(files, {.quantization = quantization}, "hf.co/x");
    EXPECT_EQ(choice.gguf_file, file);
    EXPECT_EQ(choice.model_file, "");
    EXPECT_THAT(choice.files, ElementsAre(file));
    EXPECT_THAT(choice.weights, ElementsAre(file));
    EXPECT_EQ(find_model_file(files, {.quantization = quantization}, "hf.co/x"), file);
  }
  const FileChoice parts = choose_files(files, {.quantization = "q8_0"}, "hf.co/x");
  EXPECT_EQ(parts.gguf_file, "Q8_0/x-Q8_0-00001-of-00002.gguf");
  EXPECT_THAT(parts.files, ElementsAre("Q8_0/x-Q8_0-00001-of-00002.gguf", "Q8_0/x-Q8_0-00002-of-00002.gguf"));
  EXPECT_EQ(choose_files(Names{"only.gguf", "mmproj.gguf"}, {}, "hf.co/x").gguf_file, "only.gguf");
  EXPECT_EQ(choose_files(files, {.file = "x-IQ4_NL.gguf"}, "hf.co/x").gguf_file, "x-IQ4_NL.gguf");
  // Other weights come first, unless a quantization is asked for.
  const Names both{"model.safetensors", "x-Q4_K_M.gguf"};
  EXPECT_EQ(choose_files(both, {}, "hf.co/x").gguf_file, "");
  EXPECT_EQ(choose_files(both, {.quantization = "Q4_K_M"}, "hf.co/x").gguf_file, "x-Q4_K_M.gguf");
}

TEST(FileChoice, TellsWhatElseCouldBeChosen) {
  const Names both{"model.safetensors", "onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_int8.onnx",
                   "x-Q4_K_M.gguf",     "x-Q8_0.gguf",     "mmproj-F16.gguf",      "config.json"};

  struct Row {
    FileRequest request;
    std::string chosen;
    Names precisions, quantizations;
  };

  for (const Row& row : std::vector<Row>{
           {{}, "onnx/model.onnx", {"fp16", "int8"}, {"Q4_K_M", "Q8_0"}},
           {{.precision = "int8"}, "onnx/model_int8.onnx", {"fp16", "fp32"}, {"Q4_K_M", "Q8_0"}},
           {{.quantization = "Q8_0"}, "x-Q8_0.gguf", {"fp16", "fp32", "int8"}, {"Q4_K_M"}},
       }) {
    SCOPED_TRACE(row.chosen);
    const FileChoice choice = choose_files(both, row.request, "hf.co/x");
    ASSERT_EQ(choice.gguf_file.empty() ? choice.model_file : choice.gguf_file, row.chosen);
    const OtherWeights others = other_weights(both, row.request, row.chosen);
    EXPECT_EQ(others.precisions, row.precisions);
    EXPECT_EQ(others.quantizations, row.quantizations);
  }
  const OtherWeights none = other_weights(Names{"model.safetensors", "config.json"}, {}, "");
  EXPECT_TRUE(none.precisions.empty() && none.quantizations.empty());
}

std::string module_at(const std::string& path) {
  return R"({"type": "a.Dense", "path": ")" + path + R"("})";
}

TEST(FileChoice, ReadsWhatDependsOnContent) {
  const Names names{"a/model.safetensors.index.json",
                    "a/one.safetensors",
                    "b/model.safetensors",
                    "b/model.safetensors.index.json",
                    "c/model.safetensors.index.json",
                    "modules.json",
                    "x.onnx"};
  std::map<std::string, std::string> texts{
      {"modules.json", "[" + module_at("") + "," + module_at("a") + "," + module_at("b/") + "]"},
      {"a/model.safetensors.index.json", R"({"weight_map": {"x": "one.safetensors", "y": "one.safetensors"}})"}};
  Names asked;
  const auto read = [&](const std::string& file) {
    asked.push_back(file);
    return texts.at(file);
  };
  const RepositoryLayout layout = read_layout(names, {}, "hf.co/x", read);
  EXPECT_THAT(layout.module_folders, ElementsAre("a", "b"));
  EXPECT_THAT(layout.weight_parts, ElementsAre("a/one.safetensors"));
  EXPECT_THAT(asked, ElementsAre("modules.json", "a/model.safetensors.index.json"));
  // ONNX needs no parts of other weights.
  asked.clear();
  EXPECT_THAT(read_layout(names, {.file = "x.onnx"}, "hf.co/x", read).weight_parts, ElementsAre());
  EXPECT_THAT(asked, ElementsAre("modules.json"));
  for (const char* part : {"two.safetensors", "../x.onnx", "one.bin"}) {
    texts["a/model.safetensors.index.json"] = std::string(R"({"weight_map": {"x": ")") + part + R"("}})";
    EXPECT_THROW((void)read_layout(names, {}, "hf.co/x", read), Error) << part;
  }
  texts["modules.json"] = "[" + module_at("../a") + "]";
  EXPECT_THROW((void)read_layout(names, {}, "hf.co/x", read), Error);
}

TEST(FileChoice, TellsWeightsFromSettingsAndWhatIsLeftOut) {
  const FileChoice converted =
      choose_files(Names{"config.json", "model.safetensors", "model.safetensors.index.json", "sparse_linear.pt",
                         "colbert_linear.pt", "colbert_linear.safetensors", "2_Dense/model.safetensors"},
                   with_modules({"2_Dense"}), "hf.co/x");
  EXPECT_THAT(converted.weights,
              ElementsAre("2_Dense/model.safetensors", "colbert_linear.safetensors", "model.safetensors"));
  EXPECT_THAT(converted.left_out, ElementsAre("sparse_linear.pt"));
  const FileChoice onnx = choose_files(
      Names{"config.json", "model.onnx", "model.onnx_data", "model.data", "sparse_linear.pt"}, {}, "hf.co/x");
  EXPECT_THAT(onnx.weights, ElementsAre("model.data", "model.onnx", "model.onnx_data"));
  EXPECT_THAT(onnx.left_out, ElementsAre());
}

TEST(FileChoice, RefusesWithTheReason) {
  struct Row {
    Names names;
    FileRequest request;
    ErrorCode code;
    std::string message;
  };

  for (const Row& row : std::vector<Row>{
           {{"pytorch_model.bin", "training_args.bin"},
            {},
            ErrorCode::invalid_model,
            "only as pytorch_model.bin: pickled"},
           {{"training_args.bin"}, {}, ErrorCode::invalid_model, "no weights that gpux reads"},
           {{"mmproj-x.gguf"}, {}, ErrorCode::invalid_model, "x has mmproj-x.gguf: gpux reads"},
           {{"x-Q8_0-00001-of-00003.gguf", "x-Q8_0-00003-of-00003.gguf"},
            {},
            ErrorCode::not_found,
            "2 of the 3 parts of 'x-Q8_0-00001-of-00003.gguf'"},
           {{"x-Q8_0.gguf", "x-Q5_K_M.gguf", "imatrix.gguf"},
            {},
            ErrorCode::usage,
            "choose one, as hf.co/x:QUANTIZATION: Q5_K_M, Q8_0"},
           {{"x-Q8_0.gguf"}, {.quantization = "Q4_K_M"}, ErrorCode::not_found, "no GGUF file in Q4_K_M; it has Q8_0"},
           {{"x-Q8_0.gguf", "y-Q8_0.gguf"}, {.quantization = "q8_0"}, ErrorCode::usage, "several GGUF files in Q8_0"},
           {{"model.onnx"}, {.quantization = "F16"}, ErrorCode::not_found, "@F16 names a revision"},
           {{"x-Q8_0.gguf"},
            {.precision = "fp16", .quantization = "Q8_0"},
            ErrorCode::usage,
            "hf.co/x:Q8_0 chooses a GGUF file"},
           {{"x-00002-of-00002.gguf"}, {.file = "x-00002-of-00002.gguf"}, ErrorCode::usage, "in parts the first one"},
           {{}, {}, ErrorCode::invalid_model, "no weights"},
           {{"model.safetensors", "2_Dense/pytorch_model.bin"},
            with_modules({"2_Dense"}),
            ErrorCode::invalid_model,
            "2_Dense/pytorch_model.bin"},
           {{"a.onnx", "onnx/b.onnx"}, {}, ErrorCode::usage, "choose one with file: a.onnx, onnx/b.onnx"},
           {{"a.onnx"}, {.file = "b.onnx"}, ErrorCode::not_found, "its ONNX and GGUF files: a.onnx"},
           {{"model.safetensors"}, {.file = "model.safetensors"}, ErrorCode::usage, "no ONNX file"},
           {{"onnx/model.onnx"}, {.precision = "fp16"}, ErrorCode::not_found, "ONNX files in fp32"},
           {{"model.safetensors"}, {.precision = "fp16"}, ErrorCode::not_found, "has no ONNX files"},
           {{"onnx/model_quantized.onnx"},
            {.precision = "int8", .adds_bytes_exactly = false},
            ErrorCode::not_found,
            "for this processor"},
           {{"a.onnx"}, {.file = "a.onnx", .precision = "fp16"}, ErrorCode::usage, "use one of them"},
       }) {
    try {
      (void)choose_files(row.names, row.request, "hf.co/x");
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << error.message();
      EXPECT_THAT(error.message(), HasSubstr(row.message));
    }
  }
}

}  // namespace
}  // namespace gpux::registry
