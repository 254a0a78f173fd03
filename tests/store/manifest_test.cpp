#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "store/package_manifest.h"

namespace gpux {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::string digest(char c) {
  return std::string(64, c);
}

PackageManifest example() {
  PackageManifest package;
  package.name = "digits";
  package.version = "1.0.0";
  package.description = "reads digits";
  package.model_file = "model.onnx";
  package.provider = "openvino";
  package.metadata = {{"author", "me"}};
  package.files = {{"model.onnx", {digest('a'), 10}},
                   {"data/weights.bin", {digest('b'), 20}},
                   {"gpux.yml", {digest('c'), 5}},
                   {"variants/1/model.onnx", {digest('d'), 7}}};
  package.variants = {{"variants/1/model.onnx", {"openvino", "1.31.1", "CPU", "all", "x86_64/Some CPU"}}};
  return package;
}

TEST(PackageManifest, IsAnOciManifestOfModelPack) {
  const Json manifest = Json::parse(encode_manifest(example(), {digest('e'), 99}));
  EXPECT_EQ(manifest["schemaVersion"], 2);
  EXPECT_EQ(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
  EXPECT_EQ(manifest["artifactType"], "application/vnd.cncf.model.manifest.v1+json");
  EXPECT_EQ(manifest["config"]["mediaType"], "application/vnd.cncf.model.config.v1+json");
  EXPECT_EQ(manifest["config"]["digest"], "sha256:" + digest('e'));
  EXPECT_EQ(manifest["config"]["size"], 99);
  EXPECT_EQ(manifest["layers"][0]["mediaType"], "application/vnd.cncf.model.weight.v1.raw");
  EXPECT_EQ(manifest["layers"][1]["annotations"]["org.cncf.model.filepath"], "data/weights.bin");
  EXPECT_EQ(manifest["layers"][2]["mediaType"], "application/vnd.cncf.model.weight.config.v1.raw");
  EXPECT_EQ(manifest["layers"][3]["annotations"]["dev.gpux.variant.provider"], "openvino");
  EXPECT_EQ(manifest["annotations"]["dev.gpux.provider"], "openvino");

  const Json config = Json::parse(encode_config(example()));
  EXPECT_EQ(config["descriptor"]["name"], "digits");
  EXPECT_EQ(config["config"]["format"], "onnx");
  EXPECT_EQ(config["modelfs"]["type"], "layers");
  EXPECT_EQ(config["modelfs"]["diffIds"].size(), 4U);
}

TEST(PackageManifest, ReadsBackWhatItWrote) {
  const PackageManifest written = example();
  const std::string text = encode_manifest(written, {digest('e'), 99});
  const PackageManifest read = decode_manifest(text, "it");
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.version, written.version);
  EXPECT_EQ(read.description, written.description);
  EXPECT_EQ(read.model_file, written.model_file);
  EXPECT_EQ(read.provider, written.provider);
  EXPECT_EQ(read.metadata, written.metadata);
  EXPECT_EQ(read.variants, written.variants);
  ASSERT_EQ(read.files.size(), written.files.size());
  EXPECT_EQ(read.files[1].blob, written.files[1].blob);
  EXPECT_EQ(read.total_bytes(), 42U);
  EXPECT_EQ(encode_manifest(read, {digest('e'), 99}), text);
}

TEST(PackageManifest, KeepsWhatComparedProvidersCameTo) {
  PackageManifest written = example();
  for (const ComparedProvider& compared :
       {ComparedProvider{.provider = "encoder", .agreement = 0.99999, .samples = 64, .difference = {}},
        ComparedProvider{
            .provider = "decoder", .agreement = 0, .samples = 0, .difference = "it claims 3 of 4 nodes"}}) {
    written.compared_provider = compared;
    EXPECT_EQ(decode_manifest(encode_manifest(written, {digest('e'), 99}), "it").compared_provider, compared);
  }
  written.compared_provider->difference = "two\nlines \x1b[2J";
  const std::string shown =
      decode_manifest(encode_manifest(written, {digest('e'), 99}), "it").compared_provider->difference;
  EXPECT_EQ(shown.find_first_of("\n\x1b"), std::string::npos) << shown;
}

TEST(PackageManifest, ReadsManifestsOfOthers) {
  const PackageManifest package = decode_manifest(
      R"({"layers": [{"mediaType": "application/vnd.cncf.model.weight.v1.raw", "size": 3, "digest": "sha256:)" +
          digest('a') + R"(", "annotations": {"org.cnai.model.filepath": "net.onnx"}}]})",
      "it");
  EXPECT_EQ(package.model_file, "net.onnx");
}

TEST(PackageManifest, RefusesDamage) {
  struct Case {
    std::string name;
    std::function<void(Json&)> damage;
    std::string message;
  };

  const std::vector<Case> cases{
      {"climbing name", [](Json& m) { m["layers"][1]["annotations"]["org.cncf.model.filepath"] = "../x"; },
       "'../x' does not stay inside"},
      {"absolute name", [](Json& m) { m["layers"][1]["annotations"]["org.cncf.model.filepath"] = "/etc/passwd"; },
       "'/etc/passwd' does not stay inside"},
      {"no name", [](Json& m) { m["layers"][1].erase("annotations"); }, "'' does not stay inside"},
      {"name twice", [](Json& m) { m["layers"][1]["annotations"]["org.cncf.model.filepath"] = "gpux.yml"; },
       "holds 'gpux.yml' twice"},
      {"file and folder", [](Json& m) { m["layers"][1]["annotations"]["org.cncf.model.filepath"] = "gpux.yml/x"; },
       "'gpux.yml' is a file and a folder"},
      {"no such model", [](Json& m) { m["annotations"]["dev.gpux.model"] = "other.onnx"; },
       "its model 'other.onnx' is not among its files"},
      {"archive", [](Json& m) { m["layers"][0]["mediaType"] = "application/vnd.cncf.model.weight.v1.tar"; },
       "a layer of the type"},
      {"digest", [](Json& m) { m["layers"][0]["digest"] = "sha256:../../x"; }, "is none of SHA-256"},
      {"digest type", [](Json& m) { m["layers"][0]["digest"] = 5; }, "is damaged"},
      {"no layers", [](Json& m) { m.erase("layers"); }, "is damaged"},
      {"size", [](Json& m) { m["layers"][0]["size"] = "x"; }, "is damaged"},
      {"empty",
       [](Json& m) {
         m["layers"] = Json::array();
         m["annotations"].erase("dev.gpux.model");
       },
       "no ONNX file"},
      {"two models",
       [](Json& m) {
         m["annotations"].erase("dev.gpux.model");
         m["layers"][1]["annotations"]["org.cncf.model.filepath"] = "b.onnx";
       },
       "does not say which of 'model.onnx' and 'b.onnx' is the model"},
      {"list", [](Json& m) { m = Json::array(); }, "is damaged"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Json manifest = Json::parse(encode_manifest(example(), {digest('e'), 99}));
    one.damage(manifest);
    try {
      static_cast<void>(decode_manifest(manifest.dump(), "it"));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::storage);
      EXPECT_THAT(error.message(), testing::StartsWith("it"));
      EXPECT_THAT(error.message(), HasSubstr(one.message));
      EXPECT_THAT(error.message(), testing::Not(HasSubstr("\n")));
    }
  }
  EXPECT_THROW(static_cast<void>(decode_manifest("{", "it")), Error);
  EXPECT_THROW(static_cast<void>(decode_manifest(std::string(1'000'000, '['), "it")), Error);
}

TEST(PackageManifest, KeepsNamesInside) {
  for (const char* name : {"a", "a/b.onnx", "..a", "a..b/c"}) EXPECT_TRUE(is_inside_package(name)) << name;
  for (const char* name : {"", ".", "..", "/a", "a/", "a//b", "./a", "a/..", "a/../b", "a\\b"}) {
    EXPECT_FALSE(is_inside_package(name)) << name;
  }
  EXPECT_FALSE(is_inside_package(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_inside_package(std::string(2000, 'a')));
}

PackageManifest quantized_example() {
  PackageManifest package = example();
  package.precision = "int8";
  package.files.push_back({"int8/model.onnx", {digest('f'), 3}});
  package.variants.push_back(
      {.model_file = "int8/model.onnx",
       .target = {.provider = "cpu"},
       .precision = VariantPrecision{
           .name = "int8", .weight_bits = 7, .mean_cosine = 0.99354321, .least_cosine = 0.1 + 0.2, .samples = 64}});
  return package;
}

TEST(Variant, OfAnotherPrecisionIsReadBackAsItWas) {
  const PackageManifest written = quantized_example();
  const std::string text = encode_manifest(written, {digest('e'), 99});
  const PackageManifest read = decode_manifest(text, "it");
  EXPECT_EQ(read.variants, written.variants);
  EXPECT_EQ(read.precision, "int8");
  EXPECT_EQ(encode_manifest(read, {digest('e'), 99}), text);
  // Annotations are texts, whatever they mean.
  const Json manifest = Json::parse(text);
  for (const auto& [key, value] : manifest["layers"].back()["annotations"].items()) {
    EXPECT_TRUE(value.is_string()) << key;
  }
  // What an older gpux wrote says nothing of precisions.
  EXPECT_FALSE(decode_manifest(encode_manifest(example(), {digest('e'), 99}), "it").variants[0].precision);
}

TEST(Variant, OfAnotherPrecisionIsNoModelOfItsOwn) {
  Json manifest = Json::parse(encode_manifest(quantized_example(), {digest('e'), 99}));
  manifest["annotations"].erase("dev.gpux.model");
  EXPECT_EQ(decode_manifest(manifest.dump(), "it").model_file, "model.onnx");
}

TEST(Variant, OfAnotherPrecisionIsRefusedWhereItsNumbersAreNone) {
  for (const char* key : {"weight-bits", "mean-cosine", "least-cosine", "samples"}) {
    for (const char* value : {"", "much", "1x"}) {
      Json manifest = Json::parse(encode_manifest(quantized_example(), {digest('e'), 99}));
      manifest["layers"].back()["annotations"][std::string("dev.gpux.variant.") + key] = value;
      try {
        static_cast<void>(decode_manifest(manifest.dump(), "it"));
        ADD_FAILURE() << key << " '" << value << "' was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::storage);
        EXPECT_THAT(error.message(), HasSubstr(key));
      }
    }
  }
}

TEST(Variant, OfAnotherPrecisionIsNoneOfTheModelsOwn) {
  std::vector<Variant> variants = quantized_example().variants;
  EXPECT_EQ(choose_variant(variants, {.provider = "cpu"}), nullptr);
}

TEST(Variant, IsUsedOnlyWhereAllOfItMatches) {
  const PackageManifest package = example();
  const VariantTarget here = package.variants[0].target;
  EXPECT_EQ(choose_variant(package.variants, here), &package.variants[0]);
  for (std::string VariantTarget::*member :
       {&VariantTarget::provider, &VariantTarget::runtime_version, &VariantTarget::device,
        &VariantTarget::optimization_level, &VariantTarget::machine}) {
    VariantTarget other = here;
    other.*member = "other";
    EXPECT_EQ(choose_variant(package.variants, other), nullptr);
  }
  EXPECT_EQ(choose_variant({}, here), nullptr);
  EXPECT_THAT(machine_fingerprint(), HasSubstr("/"));
}

}  // namespace
}  // namespace gpux
