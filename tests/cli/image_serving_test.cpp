// Models of images behind a port: vectors of images among those of texts, and labels for images.
#include <span>

#include "base/base64.h"
#include "cli/image_models.h"
#include "cli/serving.h"
#include "server/black_png.h"

namespace gpux::test {
namespace {

using http::post;
using testing::HasSubstr;

constexpr double near = 2e-5;

class ImageServing : public testing::Test {
 protected:
  static std::string base64_of(const std::string& file) { return to_base64(std::as_bytes(std::span(file))); }

  [[nodiscard]] std::string image(std::size_t index) const { return base64_of(read_file(picture_of(answers_, index))); }

  [[nodiscard]] static Json embed(const Serving& server, const Json& input, const Json& more = Json::object(),
                                  int status = 200) {
    Json body{{"input", input}};
    body.update(more);
    return server.json(post("/v1/embeddings", body.dump()), status);
  }

  static std::string message_of(const Json& answer) { return answer.at("error").at("message"); }

  Program gpux_;
  const Json answers_ = image_answers("clip-vit-base-patch32");
};

TEST_F(ImageServing, TextsAndImagesHaveVectorsInOneSpace) {
  import_images(gpux_, "clip-vit-base-patch32");
  const Serving server(gpux_, {"clip-vit-base-patch32"});
  const Json& images = answers_.at("images");
  const Json& texts = answers_.at("texts");
  const Json one = embed(server, {{"image", image(0)}});
  EXPECT_EQ(one.at("object"), "list");
  EXPECT_EQ(one.at("data").at(0).at("object"), "embedding");
  EXPECT_EQ(one.at("usage").at("prompt_tokens"), 0);
  expect_near(one.at("data").at(0).at("embedding"), images.at(0), near, "one image");

  const Json mixed = embed(
      server, Json::array({Json{{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64," + image(1)}}}},
                           answers_.at("text").at(0), Json{{"text", answers_.at("text").at(1)}},
                           Json{{"image", image(2)}}, Json{{"type", "text"}, {"text", answers_.at("text").at(2)}}}));
  const std::vector<const Json*> expected{&images.at(1), &texts.at(0), &texts.at(1), &images.at(2), &texts.at(2)};
  ASSERT_EQ(mixed.at("data").size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(mixed.at("data").at(i).at("index"), i);
    expect_near(mixed.at("data").at(i).at("embedding"), *expected[i], near, "input " + std::to_string(i));
  }
  EXPECT_GT(mixed.at("usage").at("prompt_tokens").get<int>(), 0);

  const Json all = embed(server, Json::array({image(0), image(1), image(2)}), {{"modality", "image"}});
  for (std::size_t i = 0; i < 3; ++i) expect_near(all.at("data").at(i).at("embedding"), images.at(i), near, "modality");
  EXPECT_EQ(embed(server, image(0), {{"modality", "image"}}).at("data").at(0), all.at("data").at(0));
  EXPECT_EQ(embed(server, {{"image", image(0)}}, {{"dimensions", 5}}).at("data").at(0).at("embedding").size(), 5U);
  const Json floats = embed(server, {{"image", image(0)}}, {{"encoding_format", "base64"}});
  EXPECT_TRUE(floats.at("data").at(0).at("embedding").is_string());
  const Json text = embed(server, answers_.at("text").at(0));
  expect_near(text.at("data").at(0).at("embedding"), texts.at(0), near, "a text alone");

  const Json paths = server.json(http::get("/openapi.json")).at("paths");
  EXPECT_THAT(paths.at("/v1/embeddings").dump(), HasSubstr("image_url"));
  EXPECT_THAT(paths.at("/predict").dump(), HasSubstr("candidate_labels"));
}

TEST_F(ImageServing, RefusesWhatIsNoImage) {
  import_images(gpux_, "clip-vit-base-patch32");
  const Serving server(gpux_, {"clip-vit-base-patch32", "--strict-requests"});
  const std::string text = base64_of("hello");
  for (const auto& [input, said] : std::vector<std::pair<Json, std::string>>{
           {Json{{"image", "https://example.com/cat.png"}}, "input.image is an address, and gpux fetches none"},
           {Json{{"type", "image_url"}, {"image_url", {{"url", "file:///etc/passwd"}}}},
            "input.image_url.url is an address"},
           {Json::array({"a", Json{{"image", text}}}), "cannot read the image"},
           {Json::array({Json{{"image", image(0)}}, Json{{"image", text}}}), "image 1"},
           {Json{{"image", "/etc/hostname"}}, "image"},
           {Json{{"image", ""}}, "input.image is empty"},
           {Json{{"image", 3}}, "input.image is no string"},
           {Json{{"image", image(0)}, {"text", "a"}}, "input is neither"},
           {Json{{"type", "image_url"}, {"text", "a"}}, "input is neither"},
           {Json{{"type", "audio"}}, "input.type is 'audio'"},
           {Json{{"video", "a"}}, "input.video is not known"},
           {Json::array({Json{{"image", image(0)}}, 3}), "input[1] is neither"},
           {Json{{"image", base64_of(black_png(20'000))}}, "33554432"}}) {
    EXPECT_THAT(message_of(embed(server, input, Json::object(), 400)), HasSubstr(said)) << input.dump().substr(0, 99);
  }
  EXPECT_THAT(message_of(embed(server, "a", {{"modality", "audio"}}, 400)), HasSubstr("accepted: text, image"));
  EXPECT_THAT(message_of(embed(server, {{"image", image(0)}}, {{"dimensions", 13}}, 400)), HasSubstr("dimension"));
}

TEST_F(ImageServing, ModelsOfImagesAloneRefuseTexts) {
  import_images(gpux_, "dinov2-small");
  import_images(gpux_, "vit-classifier");
  const Serving server(gpux_, {"dinov2-small", "vit-classifier"});
  const Json answers = image_answers("dinov2-small");
  // The only one that is able to.
  Json expected = answers.at("images").at(0);
  double sum = 0;
  for (const Json& number : expected) sum += number.get<double>() * number.get<double>();
  for (Json& number : expected) number = number.get<double>() / std::sqrt(sum);
  const Json one = embed(server, {{"image", image(0)}});
  EXPECT_EQ(one.at("model"), "dinov2-small");
  expect_near(one.at("data").at(0).at("embedding"), expected, near, "of length 1");
  const Json named{{"model", "dinov2-small"}};
  EXPECT_THAT(message_of(embed(server, "a", named, 400)), HasSubstr("makes no dense vectors of texts"));
  EXPECT_THAT(message_of(embed(server, Json::array({"a", Json{{"image", image(0)}}}), named, 400)),
              HasSubstr("it makes vectors of images"));
  EXPECT_THAT(message_of(embed(server, {{"image", image(0)}}, {{"model", "vit-classifier"}}, 400)),
              HasSubstr("'vit-classifier' makes no vectors of images; dinov2-small does"));

  const std::string file = read_file(picture_of(answers, 0));
  const Json told =
      server.json("POST /models/vit-classifier/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n" +
                  std::string("Content-Length: ") + std::to_string(file.size()) + "\r\n\r\n" + file);
  expect_near(told.at("logits").at(0), image_answers("vit-classifier").at("logits").at(0), near, "logits");
}

TEST_F(ImageServing, LabelsAreScoredForImages) {
  for (const std::string name : {"clip-vit-base-patch32", "siglip-base-patch16"}) {
    import_images(gpux_, name);
    const Serving server(gpux_, {name});
    const Json answers = image_answers(name);
    const auto ask = [&](const Json& inputs, const Json& parameters, int status = 200) {
      return server.json(post("/predict", Json{{"inputs", inputs}, {"parameters", parameters}}.dump()), status);
    };
    const Json parameters{{"candidate_labels", answers.at("labels")}, {"hypothesis_template", answers.at("template")}};
    const Json rows = ask(Json::array({image(0), "data:image/png;base64," + image(1)}), parameters);
    ASSERT_EQ(rows.size(), 2U);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i].size(), answers.at("labels").size());
      for (const Json& one : rows[i]) {
        const Json& labels = answers.at("labels");
        const auto index = std::find(labels.begin(), labels.end(), one.at("label")) - labels.begin();
        EXPECT_NEAR(one.at("score").get<double>(),
                    answers.at("probabilities").at(i).at(static_cast<std::size_t>(index)).get<double>(), near);
      }
    }
    EXPECT_EQ(ask(image(0), parameters), rows[0]);
    Json two = parameters;
    two["top_k"] = 2;
    EXPECT_EQ(ask(image(0), two).size(), 2U);
    EXPECT_THAT(ask(image(0), {{"candidate_labels", {"a", "a"}}}, 422).dump(), HasSubstr("occurs twice"));
    EXPECT_THAT(ask(image(0), {{"candidate_labels", {"a"}}, {"hypothesis_template", "b"}}, 422).dump(),
                HasSubstr("no {} in place"));
    EXPECT_THAT(ask("https://example.com/cat.png", parameters, 422).dump(), HasSubstr("is an address"));
    EXPECT_THAT(ask(base64_of("hello"), parameters, 422).dump(), HasSubstr("cannot read the image"));
  }
}

}  // namespace
}  // namespace gpux::test
