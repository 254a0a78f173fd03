// Images as inputs, by `gpux run` and behind a port: the examples' digits.
#include <cstdint>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/files.h"
#include "cli/serving.h"
#include "onnx/model_writer.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;

const std::string digits = GPUX_SOURCE_DIR "/examples/digits";

std::string image_path(int digit) {
  return digits + "/digit-" + std::to_string(digit) + ".png";
}

class Images : public testing::Test {
 protected:
  [[nodiscard]] Json run(const std::string& input) const {
    const Outcome outcome = gpux_.run({"run", digits, "--input", input});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  [[nodiscard]] static std::string label_of(const Json& told) {
    return told.at("labels").at("logits").at(0).at(0).at("label");
  }

  Program gpux_;
};

TEST_F(Images, AreReadByRunInEveryForm) {
  for (int digit = 0; digit < 10; ++digit) {
    const Json told = run("@" + image_path(digit));
    EXPECT_EQ(label_of(told), std::to_string(digit));
    EXPECT_EQ(label_of(run("image=@" + digits + "/digit-" + std::to_string(digit) + ".npy")), label_of(told));
  }
  const Json told = run("@" + image_path(3));
  const std::string file = read_file(image_path(3));
  const std::string base64 = to_base64(std::as_bytes(std::span(file)));
  for (const std::string& form : {image_path(3), base64, "data:image/png;base64," + base64}) {
    EXPECT_EQ(run(Json{{"image", form}}.dump()), told);
    EXPECT_EQ(run(Json(form).dump()), told);
  }
  EXPECT_EQ(run("image=@" + image_path(3)), told);
  // Standard input, and a file without its extension, are recognised by their bytes.
  const Outcome piped = gpux_.run({"run", digits}, {.standard_input = file});
  EXPECT_EQ(piped.json(), told) << piped.err;
  EXPECT_EQ(gpux_.run({"run", digits, "@" + gpux_.folder().write("three", file).string()}).json(), told);
  EXPECT_EQ(gpux_.run({"run", digits, "@" + image_path(3)}).json(), told);
  const std::string npy = read_file(digits + "/digit-3.npy");
  EXPECT_EQ(label_of(gpux_.run({"run", digits, "-"}, {.standard_input = npy}).json()), label_of(told));
  EXPECT_EQ(gpux_.run({"run", digits, image_path(3)}).code, 2) << "a name is no text";
  const Json both = run(Json{{"image", {image_path(3), image_path(7)}}}.dump());
  ASSERT_EQ(both.at("logits").size(), 2U);
  EXPECT_EQ(both.at("logits").at(0), told.at("logits").at(0));
}

TEST_F(Images, ThatAreNoneAreRefusedInOneLine) {
  const std::string text = gpux_.folder().write("no.png", "hello").string();
  const std::string plain = digits + "/digits.onnx";  // without its gpux.yml
  for (const auto& [model, input, code, said] : std::vector<std::tuple<std::string, std::string, int, std::string>>{
           {digits, "@" + text, 6, "cannot read the image"},
           {digits, R"({"image": "no such.png"})", 7, "no such.png"},
           {digits, R"({"image": [3, "x"]})", 6, "image"},
           {plain, "@" + image_path(3), 6, "gpux.yml has to say under 'preprocessing'"},
           {plain, Json{{"image", image_path(3)}}.dump(), 6, "image"},
       }) {
    const Outcome outcome = gpux_.run({"run", model, "--input", input});
    EXPECT_EQ(outcome.code, code) << input << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Images, AreHeldAgainstTheModel) {
  gpux_.folder().write("other/digits.onnx", read_file(digits + "/digits.onnx"));
  const std::string folder = (gpux_.folder().path() / "other").string();
  for (const auto& [keys, said] : std::vector<std::pair<std::string, std::string>>{
           {"resize: [16, 16], color: gray", "input 'image' takes float32[batch, 1, 8, 8]"},
           {"resize: [8, 8]", "preprocessing.resize: images become"},
           {"resize: [8, 8], color: gray, dtype: float16", "images become float16"},
       }) {
    gpux_.folder().write("other/gpux.yml", "name: a\nmodel: {source: digits.onnx}\npreprocessing: {" + keys + "}\n");
    const Outcome outcome = gpux_.run({"run", folder, "-i", "@" + image_path(3)});
    EXPECT_EQ(outcome.code, 3) << keys;
    EXPECT_THAT(outcome.err, HasSubstr(said));
  }
}

TEST_F(Images, AreMeasuredAndVerified) {
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"bench", digits, "--runs", "3"}, {"run", digits, "--benchmark", "--runs", "3"}, {"verify", digits}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(), {"--input", "@" + image_path(3), "--json"});
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << verb.front() << outcome.err;
  }
}

TEST_F(Images, GoThroughModelsOfTheirOwn) {
  const TemporaryFolder& folder = gpux_.folder();
  folder.write("steps/digits.onnx", read_file(digits + "/digits.onnx"));
  const onnx_test::Dimensions sizes{"batch", 1, 8, 8};
  folder.write("steps/more/mirror.onnx", onnx_test::ModelWriter()
                                             .add_input("photo", ElementType::float32, sizes)
                                             .add_output("image", ElementType::float32, sizes)
                                             .add_node("Identity", {"photo"}, {"image"})
                                             .bytes());
  folder.write("steps/best.onnx", onnx_test::ModelWriter()
                                      .add_input("logits", ElementType::float32, {"batch", 10})
                                      .add_output("digit", ElementType::int64, {"batch", 1})
                                      .add_node("ArgMax", {"logits"}, {"digit"},
                                                {onnx_test::MessageWriter()
                                                     .bytes(onnx::schema::attribute::name, "axis")
                                                     .number(onnx::schema::attribute::i, 1)
                                                     .number(onnx::schema::attribute::type, 2)
                                                     .str()})
                                      .bytes());
  folder.write("steps/gpux.yml",
               "name: steps\nmodel: {source: digits.onnx}\n"
               "preprocessing: {resize: {size: 8, mode: bicubic}, color: gray, normalize: {scale: 16/255}, "
               "custom: more/mirror.onnx}\npostprocessing: {custom: best.onnx}\n");
  const std::string steps = (folder.path() / "steps").string();
  ASSERT_EQ(gpux_.run({"build", steps}).code, 0);
  for (const std::string& model : {steps, std::string("steps")}) {
    for (const int digit : {3, 7}) {
      const Outcome outcome = gpux_.run({"run", model, "--input", "@" + image_path(digit)});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(outcome.json(), (Json{{"digit", {{digit}}}}));
    }
  }
  const Json inspected = gpux_.run({"inspect", "--json", steps}).json()["model_info"];
  EXPECT_EQ(inspected["inputs"][0]["name"], "photo");
  EXPECT_EQ(inspected["outputs"][0]["name"], "digit");
  const Serving server(gpux_, {"steps"});
  const std::string file = read_file(image_path(4));
  EXPECT_EQ(server.json("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: " +
                        std::to_string(file.size()) + "\r\n\r\n" + file),
            (Json{{"digit", {{4}}}}));

  folder.write("steps/gpux.yml",
               "name: steps\nmodel: {source: digits.onnx}\npostprocessing: {custom: more/mirror.onnx}\n");
  const Outcome refused = gpux_.run({"run", steps, "--input", "{}"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("postprocessing.custom: the model gives logits, and it takes photo"));
}

TEST_F(Images, AreServed) {
  const Json told = run("@" + image_path(3));
  const Serving server(gpux_, {digits});
  const std::string file = read_file(image_path(3));
  const std::string base64 = to_base64(std::as_bytes(std::span(file)));
  EXPECT_EQ(server.json(http::post("/predict", Json{{"image", base64}}.dump())), told);
  const auto post_as = [](const std::string& type, const std::string& body) {
    return "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  EXPECT_EQ(server.json(post_as("image/png", file)), told);
  EXPECT_THAT(server.json(post_as("image/png", "hello"), 400).dump(), HasSubstr("cannot read the image"));

  const auto form = [&](const std::string& field) {
    return "--b\r\nContent-Disposition: form-data; name=\"" + field + "\"; filename=\"a.png\"\r\n" +
           "Content-Type: image/png\r\n\r\n" + file + "\r\n";
  };
  const std::string form_type = "multipart/form-data; boundary=b";
  EXPECT_EQ(server.json(post_as(form_type, form("file") + "--b--\r\n")), told);
  const Json both = server.json(post_as(form_type, form("file") + form("image") + "--b--\r\n"));
  EXPECT_EQ(both["logits"].size(), 2U);
  EXPECT_EQ(both["labels"]["logits"][1], told["labels"]["logits"][0]);
  EXPECT_THAT(server.json(post_as(form_type, form("mask") + "--b--\r\n"), 400).dump(), HasSubstr("'mask'"));
  EXPECT_THAT(server.json(post_as(form_type, form("file")), 400).dump(), HasSubstr("cut off"));
  EXPECT_THAT(server.json(post_as(form_type, "--b--\r\n"), 400).dump(), HasSubstr("there is no image"));

  const auto infer = [&](const Json& data) {
    const Json input{{"name", "image"}, {"shape", {data.size()}}, {"datatype", "BYTES"}, {"data", data}};
    return http::post("/v2/models/digits/infer", Json{{"inputs", {input}}}.dump());
  };
  const Json inferred = server.json(infer({base64, base64}))["outputs"][0];
  EXPECT_EQ(inferred["shape"], Json({2, 10}));
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(inferred["data"][10 + i], told["logits"][0][i]);
  EXPECT_THAT(server.json(infer({"hello"}), 400).dump(), HasSubstr("cannot read the image"));
  const std::string json = Json{{"inputs",
                                 {{{"name", "image"},
                                   {"shape", {1}},
                                   {"datatype", "BYTES"},
                                   {"parameters", {{"binary_data_size", file.size() + 4}}}}}}}
                               .dump();
  std::string bytes(4, '\0');
  const auto size = static_cast<std::uint32_t>(file.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  const std::string body = json + bytes + file;
  EXPECT_EQ(
      server.json("POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: " +
                  std::to_string(json.size()) + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                  body)["outputs"][0]["data"],
      told["logits"][0]);

  // What lies on the server's machine is not for its clients.
  const std::string path = server.json(http::post("/predict", Json{{"image", image_path(3)}}.dump()), 400).dump();
  EXPECT_THAT(path, testing::Not(HasSubstr("logits")));
}

}  // namespace
}  // namespace gpux::test
