#include "project/project_file.h"

#include <cstdlib>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "project/project_cases.h"
#include "project/signature_match.h"

namespace gpux {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProjectFileTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("FOUR", "4", 1);
    ::setenv("EMPTY", "", 1);
    ::unsetenv("UNSET");
    ::setenv("GPUX_HOME", "/somewhere/home", 1);
  }
};

ProjectFile parse(const std::string& below) {
  return parse_project_file("name: digits\nmodel: {source: model.onnx}\n" + below, "/project/gpux.yml");
}

std::string message_of(const std::string& text) {
  try {
    parse_project_file(text, "f.yml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
  return "";
}

TEST_F(ProjectFileTest, TakesOrRefusesEachKey) {
  for (const test::ProjectCase& one : test::project_cases()) {
    SCOPED_TRACE(one.text);
    const std::string message = message_of(test::file_text(one));
    if (one.message.empty()) {
      EXPECT_EQ(message, "");
    } else {
      EXPECT_THAT(message, HasSubstr(one.message));
      EXPECT_THAT(message, Not(HasSubstr("\n")));
    }
  }
}

TEST_F(ProjectFileTest, HoldsEveryValue) {
  const ProjectFile project = parse(R"(version: 1.0
description: "the home is ${EMPTY}$${HOME}"
inputs:
  - {name: x, type: float32, shape: [n, 3, null, -1], required: false, description: pixels}
outputs:
  y: {type: float32, shape: [n, 2], labels: [no, yes], activation: sigmoid, top_k: 1}
runtime:
  gpu: {memory: 2MiB, device: 3}
  providers:
    - tensorrt
    - cuda: {cudnn_conv_algo_search: EXHAUSTIVE}
    - {name: mine, options: {level: 2}, library: lib/libmine.so}
  provider_libraries: {Other: ../other.so}
  custom_ops: [lib/operators.so, /more.so]
  strict: nodes
  timeout: 1.5
  threads: {intra: 2, inter: '${FOUR}'}
  optimization_level: layout
  profile: out/profile
  batch_size: 7
metadata: {author: me, year: 2024}
)");
  EXPECT_EQ(project.name, "digits");
  EXPECT_EQ(project.version, "1.0");
  EXPECT_EQ(project.description, "the home is ${HOME}");
  EXPECT_EQ(project.source, "/project/model.onnx");
  ASSERT_EQ(project.inputs->size(), 1U);
  const DeclaredValue& x = project.inputs->front();
  EXPECT_EQ(to_string(x.type), "float32[n, 3, ?, ?]");
  EXPECT_EQ(x.required, false);
  EXPECT_EQ(x.description, "pixels");
  EXPECT_EQ(x.position, (yaml::Position{6, 5}));
  const DeclaredValue& y = project.outputs->at(0);
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(y.labels, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(y.activation, Activation::sigmoid);
  EXPECT_EQ(y.top_k, 1);
  const RuntimeSettings& runtime = project.runtime;
  EXPECT_EQ(runtime.memory_limit_bytes, 2U << 20);
  EXPECT_EQ(runtime.device, 3U);
  ASSERT_EQ(runtime.providers.size(), 3U);
  EXPECT_EQ(runtime.providers[1].options.at(0).second, "EXHAUSTIVE");
  EXPECT_EQ(runtime.providers[2].library, "/project/lib/libmine.so");
  EXPECT_EQ(runtime.providers[2].options.at(0), (std::pair<std::string, std::string>{"level", "2"}));
  EXPECT_EQ(runtime.provider_libraries.at(0).path, "/other.so");
  ASSERT_EQ(runtime.custom_operators.size(), 2U);
  EXPECT_EQ(runtime.custom_operators[0].path, "/project/lib/operators.so");
  EXPECT_EQ(runtime.custom_operators[1].path, "/more.so");
  EXPECT_EQ(runtime.strict, Strictness::nodes);
  EXPECT_EQ(runtime.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(runtime.intra_threads, 2U);
  EXPECT_EQ(runtime.inter_threads, 4U);
  EXPECT_EQ(runtime.optimization, Optimization::layout);
  EXPECT_EQ(runtime.profile, "/project/out/profile");
  EXPECT_EQ(runtime.batch_size, 7);
  EXPECT_EQ(project.metadata.at(1).second, "2024");
  EXPECT_EQ(project.provider_request()->providers, "tensorrt,cuda,mine");
  EXPECT_EQ(project.where(project.provider_request()->key), "/project/gpux.yml:11:3");
  EXPECT_EQ(project.where("runtime.gpu.memory"), "/project/gpux.yml:10:9");
  EXPECT_EQ(project.where("not.given"), "/project/gpux.yml");
}

TEST_F(ProjectFileTest, HoldsHowImagesBecomeInputs) {
  EXPECT_FALSE(parse("").image_recipe);
  EXPECT_FALSE(parse("preprocessing: {resize: }").image_recipe);

  const image::Recipe short_forms =
      *parse("preprocessing: {resize: [200, 300], normalize: imagenet, color: bgr}").image_recipe;
  EXPECT_EQ(short_forms.resize->size, (image::Size{200, 300}));
  EXPECT_EQ(short_forms.resize->fit, image::Fit::stretch);
  EXPECT_EQ(short_forms.resize->mode, image::Interpolation::bilinear);
  EXPECT_EQ(short_forms.color, image::Color::bgr);
  EXPECT_EQ(short_forms.mean, (std::vector<double>{0.406, 0.456, 0.485}));
  EXPECT_EQ(short_forms.standard_deviation, (std::vector<double>{0.225, 0.224, 0.229}));
  EXPECT_FALSE(short_forms.scale || short_forms.crop || short_forms.type);
  EXPECT_EQ(short_forms.layout, image::Layout::nchw);
  EXPECT_EQ(short_forms.max_pixels, image::default_max_pixels);

  const image::Recipe whole = *parse(R"(preprocessing:
  resize: {size: 256, mode: bicubic}
  crop: [224, '${FOUR}']
  normalize: {scale: 1/128, mean: 1, std: [0.5, 1, 2]}
  layout: NHWC
  dtype: float16
  max_pixels: 4096
)")
                                   .image_recipe;
  EXPECT_EQ(whole.resize->size, (image::Size{256, 256}));
  EXPECT_EQ(whole.resize->fit, image::Fit::shortest);
  EXPECT_EQ(whole.resize->mode, image::Interpolation::bicubic);
  EXPECT_EQ(*whole.crop, (image::Size{224, 4}));
  EXPECT_EQ(whole.scale, 1.0 / 128);
  EXPECT_EQ(whole.mean, std::vector<double>{1});
  EXPECT_EQ(whole.standard_deviation, (std::vector<double>{0.5, 1, 2}));
  EXPECT_EQ(whole.layout, image::Layout::nhwc);
  EXPECT_EQ(whole.type, ElementType::float16);
  EXPECT_EQ(whole.max_pixels, 4096U);

  const image::Recipe boxed = *parse("preprocessing: {resize: {size: 640, fit: letterbox}}").image_recipe;
  EXPECT_EQ(boxed.resize->fit, image::Fit::letterbox);
  EXPECT_EQ(boxed.resize->size, (image::Size{640, 640}));
  EXPECT_EQ(boxed.resize->fill, std::vector<double>{114});
}

TEST_F(ProjectFileTest, RequestsProvidersInOneWay) {
  EXPECT_EQ(parse("runtime: {gpu: {backend: cuda}}").provider_request()->providers, "cuda");
  // A list is exactly itself, also of one.
  EXPECT_EQ(parse("runtime: {providers: [cuda]}").provider_request()->providers, "cuda,");
  EXPECT_EQ(parse("runtime: {providers: 'a, b'}").provider_request()->providers, "a,b");
}

TEST_F(ProjectFileTest, LeavesOutWhatIsNotGiven) {
  const ProjectFile project = parse("");
  EXPECT_EQ(project.version, "1.0.0");
  EXPECT_FALSE(project.inputs || project.outputs || project.provider_request());
  EXPECT_FALSE(project.runtime.timeout || project.runtime.strict || project.runtime.profile);
}

TEST_F(ProjectFileTest, KeepsProfilesInTheHome) {
  ProjectFile project =
      parse_project_file("name: ../a/b\nmodel: {source: m}\nruntime: {enable_profiling: true}", "f.yml");
  EXPECT_EQ(project.runtime.profile, "/somewhere/home/profiles/gpux-profile-.._a_b");
  EXPECT_NO_THROW(require_portable(project));
}

TEST_F(ProjectFileTest, KeepsCodeAndPlacesOutOfPackages) {
  for (const char* text :
       {"runtime: {provider_libraries: {A: a.so}}", "runtime: {providers: [{name: a, library: a.so}]}",
        "runtime: {profile: /etc/profile}", "runtime: {custom_ops: [a.so]}"}) {
    try {
      require_portable(parse(text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("/project/gpux.yml:3:"));
    }
  }
}

TEST_F(ProjectFileTest, ListsALimitedNumberOfProblems) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const std::string message = message_of("name: a\nmodel: {source: m}\n" + text);
  EXPECT_THAT(message, HasSubstr("; and 980 more"));
  EXPECT_LT(message.size(), 6000U);
}

TEST_F(ProjectFileTest, StaysSmallOnHostileText) {
  EXPECT_THAT(message_of(std::string(100'000, '[')), HasSubstr("f.yml:1:"));
  EXPECT_THAT(message_of("a: " + std::string(300, '[') + std::string(300, ']')),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(message_of(std::string(100'000, '{')), HasSubstr("f.yml:1:"));
  std::string blocks;
  for (int i = 0; i < 1000; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(message_of(blocks), HasSubstr("nested deeper than 64 levels"));
  std::string bomb = "metadata: {a: x}\nb0: &b0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string previous = "*b" + std::to_string(i - 1);
    bomb += "b" + std::to_string(i) + ": &b" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += previous + ", ";
    bomb += previous + "]\n";
  }
  EXPECT_THAT(message_of(bomb), HasSubstr("more than 100000 values"));
  EXPECT_THAT(message_of(std::string(2'000'000, 'a')), HasSubstr("2000000 bytes; at most 1048576 are accepted"));
  ::setenv("LARGE", std::string(100'000, 'x').c_str(), 1);
  std::string growth = "metadata:\n";
  for (int i = 0; i < 200; ++i) growth += "  k" + std::to_string(i) + ": ${LARGE}\n";
  EXPECT_THAT(message_of("name: a\nmodel: {source: m}\n" + growth),
              HasSubstr("variables make more than 8388608 bytes"));
}

TEST_F(ProjectFileTest, SurvivesEveryCutAndFlip) {
  std::ifstream stream(std::string(GPUX_SOURCE_DIR) + "/tests/project/whole.yml");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  ASSERT_EQ(message_of(text), "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    message_of(text.substr(0, i));
    for (const char c : {'[', '{', '&', '*', '!', ':', '-', '\n', '\t', '"', '|', '>', '%', '?', '\x80'}) {
      std::string changed = text;
      changed[i] = c;
      message_of(changed);
    }
  }
}

TEST_F(ProjectFileTest, SaysWhyAFileCannotBeRead) {
  EXPECT_THROW(read_project_file("/nowhere/gpux.yml"), Error);
  try {
    read_project_file(GPUX_SOURCE_DIR);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("is a directory"));
  }
}

SignatureEntry entry(const char* name, ElementType element, std::optional<std::vector<Dimension>> dimensions,
                     bool required = true) {
  SignatureEntry result;
  result.name = name;
  result.type.element = element;
  result.type.dimensions = std::move(dimensions);
  result.required = required;
  return result;
}

Signature classifier() {
  Signature signature;
  signature.inputs.push_back(entry("x", ElementType::float32, std::vector<Dimension>{{std::nullopt, "n"}, {64, ""}}));
  signature.inputs.push_back(entry("scale", ElementType::float32, std::vector<Dimension>{}, false));
  signature.outputs.push_back(entry("y", ElementType::float32, std::vector<Dimension>{{std::nullopt, "n"}, {10, ""}}));
  SignatureEntry sequence;
  sequence.name = "s";
  sequence.type.kind = ValueKind::sequence;
  sequence.type.inner.resize(1);
  sequence.type.inner[0].element = ElementType::int64;
  signature.outputs.push_back(sequence);
  signature.outputs.push_back(entry("any", ElementType::boolean, std::nullopt));
  return signature;
}

TEST_F(ProjectFileTest, ComparesWithTheModel) {
  struct Case {
    std::string declared;
    std::vector<std::string> differences;  // a part of each
  };

  const std::vector<Case> cases{
      {"", {}},
      {"inputs: {x: float32}\noutputs: {y: float}", {}},
      {"inputs: {x: {type: float32, shape: [8, 64]}}", {}},
      {"inputs: {x: {type: float32, shape: [batch, width]}}", {}},
      {"inputs: {x: {type: float32, shape: [null, -1]}, scale: {type: float32, shape: [], required: false}}", {}},
      {"outputs: {s: seq(int64), any: {type: bool, shape: [1, 2, 3]}}", {}},
      {"inputs: {}", {"p.yml:3:1: the model's input 'x' (float32[n, 64]) is not declared"}},
      {"inputs: {x: int64}", {"p.yml:3:10: input 'x' is declared int64, but the model has float32[n, 64]"}},
      {"inputs: {x: {type: float32, shape: [64]}}", {"declared float32[64], but the model has float32[n, 64]"}},
      {"inputs: {x: {type: float32, shape: [1, 65]}}", {"declared float32[1, 65], but the model has"}},
      {"inputs: {x: {type: float32, required: false}}", {"input 'x' is declared not required, but the model has no"}},
      {"outputs: {s: seq(float32)}", {"output 's' is declared sequence(float32"}},
      {"outputs: {s: int64}", {"output 's' is declared int64, but the model has sequence(int64"}},
      {"outputs: {y: {type: float32, labels: [a, b]}}",
       {"output 'y' has 2 labels, but the model's last dimension has 10"}},
      {"inputs: {z: float32, x: bool}\noutputs: {w: float32}",
       {"p.yml:3:10: the model has no input 'z'; it has 'x', 'scale'", "p.yml:3:22: input 'x' is declared bool",
        "p.yml:4:11: the model has no output 'w'; it has 'y', 's', 'any'"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.declared);
    const ProjectFile project = parse_project_file("name: digits\nmodel: {source: m.onnx}\n" + one.declared, "p.yml");
    const std::vector<std::string> differences = compare(project, classifier());
    ASSERT_EQ(differences.size(), one.differences.size()) << testing::PrintToString(differences);
    for (std::size_t i = 0; i < differences.size(); ++i) EXPECT_THAT(differences[i], HasSubstr(one.differences[i]));
  }
  EXPECT_THROW(require_match(parse("inputs: {}"), classifier()), Error);
  EXPECT_NO_THROW(require_match(parse(""), classifier()));
}

TEST(SignatureMatch, SaysInWhatOneModelCannotStandInForAnother) {
  struct Case {
    std::function<void(Signature&)> change;
    const char* difference;
  };

  const std::vector<Case> cases{
      {[](Signature&) {}, ""},
      {[](Signature& other) { other.inputs[0].type.dimensions->front().name = "batch"; }, ""},
      {[](Signature& other) { std::swap(other.inputs[0], other.inputs[1]); }, ""},
      {[](Signature& other) { other.outputs[0].type.dimensions = std::nullopt; }, ""},
      {[](Signature& other) { other.inputs.pop_back(); }, "it has no input 'scale'"},
      {[](Signature& other) { other.inputs.push_back(entry("z", ElementType::int8, std::nullopt)); },
       "the model has no input 'z'"},
      {[](Signature& other) { other.outputs[0].type.element = ElementType::float16; },
       "its output 'y' is float16[n, 10], and the model's float32[n, 10]"},
      {[](Signature& other) { other.outputs[0].type.dimensions->pop_back(); },
       "its output 'y' is float32[n], and the model's float32[n, 10]"},
      {[](Signature& other) { other.outputs[0].type.dimensions->back().size = 11; }, "float32[n, 11]"},
  };
  for (const Case& one : cases) {
    Signature other = classifier();
    one.change(other);
    const std::string found = difference(classifier(), other);
    EXPECT_THAT(found, HasSubstr(one.difference));
    EXPECT_EQ(found.empty(), std::string(one.difference).empty()) << found;
  }
}

}  // namespace
}  // namespace gpux
