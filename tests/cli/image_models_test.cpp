// Models of images as gpux import converts them, against transformers: vectors, labels and zero-shot scores.
#include "cli/image_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

namespace gpux::test {
namespace {

using testing::HasSubstr;

constexpr double near = 2e-5;

std::vector<std::string> reference_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(image_references)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Json> lines_of(const std::string& out) {
  std::vector<Json> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line, nullptr, false));
  return lines;
}

class ImageModel : public testing::TestWithParam<std::string> {
 protected:
  void expect_vectors(const std::vector<std::string>& words, const Json& expected) const {
    std::vector<std::string> arguments{"embed", "-m", GetParam(), "--no-normalize"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Outcome outcome = gpux_.run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<Json> lines = lines_of(outcome.out);
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      Json vector = lines[i].at("vector");
      if (answers_.contains("texts")) scale_to_one(vector);
      expect_near(vector, expected[i], near, words[i]);
    }
  }

  static void scale_to_one(Json& vector) {
    double sum = 0;
    for (const Json& one : vector) sum += one.get<double>() * one.get<double>();
    for (Json& one : vector) one = one.get<double>() / std::sqrt(sum);
  }

  [[nodiscard]] std::vector<std::string> picture_arguments() const {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < answers_.at("pictures").size(); ++i) {
      arguments.push_back("@" + picture_of(answers_, i));
    }
    return arguments;
  }

  Program gpux_;
  const Json answers_ = image_answers(GetParam());
};

TEST_P(ImageModel, EqualsTransformers) {
  import_images(gpux_, GetParam());
  if (answers_.contains("images")) expect_vectors(picture_arguments(), answers_.at("images"));
  if (answers_.contains("texts")) expect_vectors(answers_.at("text"), answers_.at("texts"));
  if (!answers_.contains("probabilities")) return;
  const bool is_classifier = !answers_.contains("labels");
  for (std::size_t i = 0; i < answers_.at("pictures").size(); ++i) {
    std::vector<std::string> arguments{"run", GetParam(), "@" + picture_of(answers_, i)};
    if (!is_classifier) {
      std::string labels;
      for (const Json& label : answers_.at("labels")) labels += (labels.empty() ? "" : ",") + label.get<std::string>();
      arguments.insert(arguments.end(), {"--labels", labels, "--template", answers_.at("template").get<std::string>()});
    }
    const Json told = gpux_.run(arguments).json();
    const Json& expected = answers_.at("probabilities").at(i);
    if (is_classifier) {
      expect_near(told.at("logits").at(0), answers_.at("logits").at(i), near, GetParam());
      const Json& best = told.at("labels").at("logits").at(0).at(0);
      const auto highest = std::max_element(expected.begin(), expected.end());
      EXPECT_NEAR(best.at("score").get<double>(), highest->get<double>(), near);
      EXPECT_EQ(best.at("label"), "label " + std::to_string(highest - expected.begin()) + ": of $x");
      continue;
    }
    double before = 2;
    for (std::size_t j = 0; j < expected.size(); ++j) {
      const Json& labels = answers_.at("labels");
      const auto index = std::find(labels.begin(), labels.end(), told.at("labels").at(j)) - labels.begin();
      const auto score = told.at("scores").at(j).get<double>();
      EXPECT_NEAR(score, expected.at(static_cast<std::size_t>(index)).get<double>(), near);
      EXPECT_LE(score, before);
      before = score;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(References, ImageModel, testing::ValuesIn(reference_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class ClipModel : public testing::Test {
 protected:
  void SetUp() override {
    import_images(gpux_, name_);
    for (std::size_t i = 0; i < answers_.at("pictures").size(); ++i) {
      const std::string picture = picture_of(answers_, i);
      (void)gpux_.folder().write("photos/" + std::filesystem::path(picture).filename().string(), read_file(picture));
    }
  }

  /// In the order of the pictures' names.
  [[nodiscard]] std::vector<std::pair<double, std::string>> expected_for(const Json& query) const {
    std::vector<std::pair<double, std::string>> scores;
    for (std::size_t i = 0; i < answers_.at("images").size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < query.size(); ++j) {
        sum += query[j].get<double>() * answers_.at("images").at(i).at(j).get<double>();
      }
      scores.emplace_back(sum, answers_.at("pictures").at(i).get<std::string>());
    }
    std::sort(scores.rbegin(), scores.rend());
    return scores;
  }

  void expect_results(const std::vector<std::string>& arguments, const Json& query) const {
    const Outcome outcome = gpux_.run(arguments, {.folder = gpux_.folder().path()});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json results = outcome.json().at("results");
    const auto expected = expected_for(query);
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(results[i].at("score").get<double>(), expected[i].first, near);
      EXPECT_EQ(std::filesystem::path(results[i].at("image").get<std::string>()).filename().string(),
                expected[i].second);
    }
  }

  [[nodiscard]] Outcome run(const std::vector<std::string>& arguments) const {
    return gpux_.run(arguments, {.folder = gpux_.folder().path()});
  }

  Program gpux_;
  const std::string name_ = "clip-vit-base-patch32";
  const Json answers_ = image_answers(name_);
};

TEST_F(ClipModel, ImagesAreFoundByTextsAndImages) {
  const std::string text = answers_.at("text").at(0);
  expect_results({"search", "--json", name_, text, "--images", "photos"}, answers_.at("texts").at(0));
  const std::string first = "@photos/" + answers_.at("pictures").at(0).get<std::string>();
  expect_results({"search", "--json", name_, first, "--images", "photos"}, answers_.at("images").at(0));
  // An index in JSON lines names its images; of one in numbers they are given again.
  ASSERT_EQ(run({"embed", name_, "@photos", "-o", "index.jsonl"}).code, 0);
  ASSERT_EQ(run({"embed", name_, "@photos", "-o", "index.npy"}).code, 0);
  expect_results({"search", "--json", name_, text, "--index", "index.jsonl"}, answers_.at("texts").at(0));
  expect_results({"search", "--json", name_, first, "--index", "index.jsonl"}, answers_.at("images").at(0));
  expect_results({"search", "--json", name_, text, "--index", "index.npy", "--images", "photos"},
                 answers_.at("texts").at(0));
  const Outcome table = run({"search", "--table", name_, text, "--images", "photos", "--top-k", "1"});
  EXPECT_THAT(table.out, HasSubstr("IMAGE"));
  const Json texts = run({"search", "--json", name_, first, "a cat", "a dog"}).json();
  EXPECT_EQ(texts.at("results").size(), 2U);
  EXPECT_TRUE(texts.at("results").at(0).contains("text"));
}

TEST_F(ClipModel, CutsTextsAndImagesAsTheFolderSays) {
  const std::filesystem::path folder = gpux_.folder().path() / "folder";
  std::filesystem::copy(image_references + name_, folder);
  const auto import_with = [&](const std::string& truncate_dim) {
    (void)gpux_.folder().write("folder/config_sentence_transformers.json", R"({"truncate_dim": )" + truncate_dim + "}");
    return run({"import", folder.string(), "-t", "cut"});
  };
  const Outcome imported = import_with("4");
  ASSERT_EQ(imported.code, 0) << imported.err;
  const std::string image = "@" + picture_of(answers_, 0);
  for (const std::string& item : {answers_.at("text").at(0).get<std::string>(), image}) {
    const Json whole = run({"embed", name_, item, "-q"}).json().at("vector");
    const Json cut = run({"embed", "cut", item, "-q"}).json().at("vector");
    expect_near(cut, Json(std::vector<Json>(whole.begin(), whole.begin() + 4)), near, item);
    EXPECT_EQ(run({"embed", "cut", item, "-q", "--dimensions", "6"}).json().at("vector").size(), 6U)
        << "a request wins";
  }
  EXPECT_EQ(run({"search", "cut", image, "--images", "photos"}).code, 0);
  EXPECT_EQ(import_with("4096").code, 0) << "sentence-transformers takes more than there are";
}

TEST_F(ClipModel, RefusesInOneLine) {
  import_images(gpux_, "dinov2-small");
  (void)gpux_.folder().write("notes.md", "# gpux\n\nsome words\n");
  (void)gpux_.folder().write("list.txt", "photos/png-rgb.png\n\n");
  std::filesystem::create_directory(gpux_.folder().path() / "empty");
  ASSERT_EQ(run({"embed", name_, "@photos", "-o", "index.npy"}).code, 0);
  ASSERT_EQ(run({"import", image_references + name_, "-o", "converted"}).code, 0);
  const std::string image = "@photos/png-rgb.png";
  for (const auto& [arguments, code, said] : std::vector<std::tuple<std::vector<std::string>, int, std::string>>{
           {{"run", name_, image}, 2, "--labels cat,dog gives the image scores of labels"},
           {{"run", name_, "-i", image}, 2, "whose vectors 'gpux embed clip-vit-base-patch32 @photos/png-rgb.png'"},
           {{"run", name_, image, "--labels", "a,a"}, 2, "occurs twice"},
           {{"run", name_, image, "--labels", "a", "--template", "b"}, 2, "no {} in place of the label"},
           {{"embed", name_, "--images", "notes.md"}, 7, "'notes.md' is no image"},
           {{"embed", name_, "@empty"},
            7,
            "has no images (.jpg, .jpeg, .png, .webp); texts are read from files: @FILE"},
           {{"embed", "dinov2-small", "a"}, 2, "makes vectors of images, not of texts"},
           {{"embed", name_, image, "--precision", "int8"}, 2, "--precision int8: the model would run in fp32"},
           {{"embed", name_, "a", "--precision", "int8"}, 2, "--precision int8: the model would run in fp32"},
           {{"import", image_references + name_, "-t", "x", "--quantize", "int8"}, 2, "variants of such models"},
           {{"build", "converted", "-t", "x", "--quantize", "fp16"}, 2, "variants of such models are not supported"},
           {{"import", image_references + "dinov2-small", "-t", "x", "--quantize", "int8"}, 2, "--samples PLACE"},
           {{"search", "dinov2-small", "a", "--images", "photos"}, 2, "makes vectors of images, not of texts"},
           {{"search", name_, "a", "--images", "photos", "b"}, 2, "texts or --images, not both"},
           {{"search", name_, "@photos", "--images", "photos"}, 2, "is a folder"},
           {{"search", name_, "a", "--index", "index.npy", "--images", "list.txt"},
            6,
            "has 1 image, 'index.npy' has 3"},
           {{"search", "dinov2-small", image, "--index", "index.npy"}, 6, "dimensions"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(lines_of(run({"embed", name_, "--images", "list.txt"}).out).size(), 1U);
}

// Nothing reads it: only a note about its tokens would.
TEST_F(ClipModel, ImagesNeedNoTokenizer) {
  const std::filesystem::path folder = gpux_.folder().path() / "images";
  std::filesystem::copy(image_references + "dinov2-small", folder);
  Json config = Json::parse(read_file(folder / "config.json"));
  config["vocab_size"] = 10;
  (void)gpux_.folder().write("images/config.json", config.dump());
  (void)gpux_.folder().write("images/tokenizer.json", "{}");
  const Outcome imported = run({"import", folder.string(), "-t", "images"});
  EXPECT_EQ(imported.code, 0) << imported.err;
}

TEST_F(ClipModel, ImportSaysWhatTheModelTakes) {
  for (const auto& [name, summary, suggestion] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {name_, "images of 32x32, at most 24 tokens", "'a sentence', gpux embed x:latest @image.jpg"},
           {"dinov2-small", "images of 32x32\n", "try: gpux embed x:latest @image.jpg"},
           {"vit-classifier", "images of 32x32, image classification, 7 labels",
            "try: gpux run x:latest @image.jpg"}}) {
    const Outcome outcome = run({"import", image_references + name, "-t", "x"});
    EXPECT_THAT(outcome.out, HasSubstr(summary));
    EXPECT_THAT(outcome.err, HasSubstr(suggestion));
    EXPECT_THAT(outcome.out, testing::Not(HasSubstr("0 tokens")));
  }
}

// As onnx-community and Xenova lay their repositories out.
TEST_F(ClipModel, TwoOnnxFilesAreOneModel) {
  const std::filesystem::path folder = gpux_.folder().path() / "exported";
  ASSERT_EQ(run({"import", image_references + name_, "-o", "converted"}).code, 0);
  const std::filesystem::path converted = gpux_.folder().path() / "converted";
  std::filesystem::create_directories(folder / "onnx");
  std::filesystem::copy(image_references + name_, folder);
  std::filesystem::remove(folder / "model.safetensors");
  for (const char* tower : {"text_model.onnx", "vision_model.onnx"}) {
    std::filesystem::copy(converted / tower, folder / "onnx" / tower);
  }
  std::filesystem::copy(converted / "text_model.onnx", folder / "onnx/model.onnx");  // which is not used
  ASSERT_EQ(run({"import", "exported", "-t", "exported"}).code, 0);
  for (const std::string model : {"exported", "./exported"}) {
    for (const std::string& word : {std::string("@photos/png-rgb.png"), answers_.at("text").at(0).get<std::string>()}) {
      const auto vector = [&](const std::string& of) { return lines_of(run({"embed", "-m", of, word}).out).at(0); };
      EXPECT_EQ(vector(model).at("vector"), vector(name_).at("vector"));
    }
  }
  const Outcome unscaled = run({"run", "exported", "@photos/png-rgb.png", "--labels", "cat,dog"});
  EXPECT_EQ(unscaled.code, 3);
  EXPECT_THAT(unscaled.err, HasSubstr("logit_scale"));
  std::filesystem::remove(folder / "onnx/vision_model.onnx");
  const Outcome half = run({"import", "exported", "-t", "half"});
  EXPECT_EQ(half.code, 7);
  EXPECT_THAT(half.err, HasSubstr("a model of texts and images needs both"));
}

}  // namespace
}  // namespace gpux::test
