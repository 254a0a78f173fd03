#include "registry/hub/file_choice.h"

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

TEST(FileChoice, TakesTheOnnxFileTheTokenizerAndTheSettings) {
  const FileChoice choice = choose_files(minilm, {}, "hf.co/x");
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
            {},
            "",
            {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}},
           {{"model.safetensors", "2_Dense/model.safetensors", "2_Dense/config.json", "2_Dense/pytorch_model.bin"},
            {},
            "",
            {"2_Dense/config.json", "2_Dense/model.safetensors", "model.safetensors"}},
           {{"onnx/model.onnx", "2_Dense/model.safetensors"},
            {},
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
            {},
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

TEST(FileChoice, TellsWeightsFromSettingsAndWhatIsLeftOut) {
  const FileChoice converted =
      choose_files(Names{"config.json", "model.safetensors", "model.safetensors.index.json", "sparse_linear.pt",
                         "colbert_linear.pt", "colbert_linear.safetensors", "2_Dense/model.safetensors"},
                   {}, "hf.co/x");
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
           {{"model.gguf"}, {}, ErrorCode::invalid_model, "GGUF, model.gguf"},
           {{}, {}, ErrorCode::invalid_model, "no weights"},
           {{"model.safetensors", "2_Dense/pytorch_model.bin"},
            {},
            ErrorCode::invalid_model,
            "2_Dense/pytorch_model.bin"},
           {{"a.onnx", "onnx/b.onnx"}, {}, ErrorCode::usage, "choose one with --file: a.onnx, onnx/b.onnx"},
           {{"a.onnx"}, {.file = "b.onnx"}, ErrorCode::not_found, "its ONNX files: a.onnx"},
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
