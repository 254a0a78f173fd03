#include "checkpoint/exported_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> files_of(const std::vector<ExportedVariant>& variants) {
  std::vector<std::string> files;
  for (const ExportedVariant& variant : variants) files.push_back(variant.precision + " " + variant.file);
  return files;
}

std::string reason_against(const ExportedFiles& sorted, const std::string& file) {
  for (const LeftOutFile& left_out : sorted.left_out) {
    if (left_out.file == file) return left_out.reason;
  }
  return "kept";
}

const std::vector<std::string> everything{"onnx/model_O3.onnx",
                                          "onnx/model_bnb4.onnx",
                                          "onnx/model_fp16.onnx",
                                          "onnx/model_int8.onnx",
                                          "onnx/model_q4f16.onnx",
                                          "onnx/model_qint8_arm64.onnx",
                                          "onnx/model_qint8_avx512.onnx",
                                          "onnx/model_qint8_avx512_vnni.onnx",
                                          "onnx/model_quantized.onnx",
                                          "onnx/model_quint8_avx2.onnx",
                                          "onnx/model_uint8.onnx",
                                          "onnx/decoder.onnx",
                                          "onnx/model.onnx"};

TEST(ExportedFiles, AreSortedForTheProcessor) {
  const ExportedFiles vnni = sort_exported_files(everything, true, true);
  EXPECT_THAT(
      files_of(vnni.variants),
      ElementsAre("fp16 onnx/model_fp16.onnx", "int8 onnx/model_qint8_avx512_vnni.onnx",
                  "int8 onnx/model_qint8_avx512.onnx", "int8 onnx/model_quantized.onnx", "int8 onnx/model_int8.onnx",
                  "int8 onnx/model_uint8.onnx", "int8 onnx/model_quint8_avx2.onnx"));
  EXPECT_EQ(vnni.variants.front().weight_bits, 16U);
  EXPECT_EQ(vnni.variants.back().weight_bits, 8U);
  EXPECT_EQ(vnni.left_out.size() + vnni.variants.size(), everything.size());

  const ExportedFiles arm = sort_exported_files(everything, false, true);
  EXPECT_THAT(files_of(arm.variants),
              ElementsAre("fp16 onnx/model_fp16.onnx", "int8 onnx/model_qint8_arm64.onnx",
                          "int8 onnx/model_quantized.onnx", "int8 onnx/model_int8.onnx", "int8 onnx/model_uint8.onnx"));

  EXPECT_THAT(files_of(sort_exported_files(everything, true, false).variants),
              ElementsAre("fp16 onnx/model_fp16.onnx"));
}

TEST(ExportedFiles, AreLeftOutWithAReason) {
  const ExportedFiles sorted = sort_exported_files(everything, true, false);
  for (const auto& [file, words] :
       std::vector<std::pair<std::string, std::string>>{{"onnx/model_O3.onnx", "does again"},
                                                        {"onnx/model_bnb4.onnx", "no precision"},
                                                        {"onnx/model_q4f16.onnx", "no precision"},
                                                        {"onnx/decoder.onnx", "no precision"},
                                                        {"onnx/model_qint8_arm64.onnx", "other processors"},
                                                        {"onnx/model_quantized.onnx", "; quantize int8 makes one"},
                                                        {"onnx/model.onnx", "another model.onnx"},
                                                        {"onnx/model_fp16.onnx", "kept"}}) {
    EXPECT_THAT(reason_against(sorted, file), HasSubstr(words)) << file;
  }
}

TEST(ExportedFiles, AreThoseOfTheFolderAndItsOnnx) {
  const test::TemporaryFolder folder;
  for (const char* name : {"model.onnx", "model.onnx_data", "onnx/model-FP16.onnx", "other/model_int8.onnx"}) {
    folder.write(name, "");
  }
  const std::vector<std::string> files = exported_files_in(folder.path());
  EXPECT_THAT(files, ElementsAre("model.onnx", "onnx/model-FP16.onnx"));
  EXPECT_THAT(files_of(sort_exported_files(files, true, true).variants), ElementsAre("fp16 onnx/model-FP16.onnx"));
  EXPECT_TRUE(exported_files_in(folder.path() / "none").empty());
}

}  // namespace
}  // namespace gpux
