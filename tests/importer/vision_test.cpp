#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "checkpoint/image_preprocessing.h"
#include "checkpoint/image_project.h"
#include "gpux/error.h"
#include "importer/graph/position_resize.h"

namespace gpux::importer {
namespace {

using testing::HasSubstr;

std::string yaml_of_config(const std::string& json) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "preprocessor_config.json") << json;
  return checkpoint::yaml_of(checkpoint::read_image_preprocessing(folder.path()));
}

std::string refusal_of(const std::string& json) {
  try {
    return "accepted: " + yaml_of_config(json);
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(ImagePreprocessing, ReadsTheProcessorsOfTransformers) {
  EXPECT_EQ(yaml_of_config(R"({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 224}})"),
            "preprocessing:\n  resize: {size: 224, fit: shortest, mode: bicubic}\n"
            "  crop: {size: [224, 224], rounding: down}\n"
            "  normalize: {mean: [0.48145466, 0.4578275, 0.40821073], std: [0.26862954, 0.26130258, 0.27577711]}\n"
            "  color: rgb\n");
  EXPECT_EQ(yaml_of_config(R"({"feature_extractor_type": "ViTFeatureExtractor", "size": 384, "image_mean": [0.5]})"),
            "preprocessing:\n  resize: {size: [384, 384], fit: stretch, mode: bilinear}\n"
            "  normalize: {mean: [0.5], std: [0.5]}\n  color: rgb\n");
  EXPECT_EQ(yaml_of_config(R"({"image_processor_type": "SiglipImageProcessorFast", "do_normalize": false,
                              "do_rescale": false})"),
            "preprocessing:\n  resize: {size: [224, 224], fit: stretch, mode: bicubic}\n"
            "  normalize: {scale: 1}\n  color: rgb\n");
}

TEST(ImagePreprocessing, RefusesWhatGpuxDoesNotDo) {
  EXPECT_THAT(refusal_of(R"({"image_processor_type": "ConvNextImageProcessor"})"), HasSubstr("CLIPImageProcessor"));
  EXPECT_THAT(refusal_of(R"({"image_processor_type": "ViTImageProcessor", "do_pad": true})"), HasSubstr("do_pad"));
  EXPECT_THAT(refusal_of(R"({"image_processor_type": "ViTImageProcessor", "resample": 1})"),
              HasSubstr("resample is 1"));
  EXPECT_THAT(refusal_of(R"({"image_processor_type": "SiglipImageProcessor", "size": 224})"), HasSubstr("size is 224"));
  EXPECT_THAT(refusal_of(R"({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 200}})"),
              HasSubstr("smaller than crop_size"));
}

TEST(ImageProject, QuotesLabels) {
  const checkpoint::ImageProject project{.name = "a \"b\"",
                                         .source = "model.onnx",
                                         .image_tower = {},
                                         .files = {},
                                         .recipe = {},
                                         .labelled_output = "logits",
                                         .labelled_type = "float32",
                                         .labels = {"$x: y"},
                                         .is_multi_label = true,
                                         .zero_shot = {}};
  const std::string text = checkpoint::project_text(project);
  EXPECT_THAT(text, HasSubstr("name: \"a \\\"b\\\"\"\n"));
  EXPECT_THAT(text, HasSubstr("activation: sigmoid\n    top_k: 1\n    labels:\n      - \"$$x: y\"\n"));
}

// The numbers are torch.nn.functional.interpolate's, mode="bicubic", align_corners=False.
TEST(PositionResize, EqualsTorch) {
  const std::vector<float> grid{0, 1, 4, 9, -2, 3, 5, 7, 8};

  struct Case {
    PositionResize resize;
    std::int64_t height, width;
    std::vector<float> expected;
  };

  const std::vector<Case> cases{
      {PositionResize::bicubic, 2, 2, {1.560394F, 2.706955F, 5.843414F, 6.336151F}},
      {PositionResize::bicubic,
       4,
       2,
       {-0.324711F, 3.490051F, 4.194332F, 1.457037F, 6.685001F, 3.567493F, 5.35236F, 8.300489F}},
      {PositionResize::bicubic_antialias, 2, 2, {1.852933F, 1.949318F, 5.600888F, 5.220885F}},
      {PositionResize::bicubic_antialias,
       4,
       2,
       {-0.01707F, 3.104322F, 3.13848F, 1.137585F, 5.546248F, 3.239311F, 5.696772F, 8.0919F}}};
  for (const Case& one : cases) {
    const std::vector<float> resized = resized_positions(grid, 3, one.height, one.width, 1, one.resize);
    ASSERT_EQ(resized.size(), one.expected.size());
    for (std::size_t i = 0; i < resized.size(); ++i) EXPECT_NEAR(resized[i], one.expected[i], 2e-6F) << i;
  }
}

}  // namespace
}  // namespace gpux::importer
