// Models of images as gpux import converts them, against transformers: vectors, labels and zero-shot scores.
#include "cli/image_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

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

}  // namespace
}  // namespace gpux::test
