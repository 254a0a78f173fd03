#include "installation/packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/table.h"

namespace gpux::installation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The error's code and words; internal and empty where there is none.
Error error_of(const std::string& name) {
  try {
    (void)find_package_set(name);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, ""};
}

TEST(PackageSets, AreOfProvidersOfTheTable) {
  for (const PackageSet& set : package_sets()) {
    const provider::ProviderRow* row = provider::find_row(set.provider);
    ASSERT_NE(row, nullptr) << set.name;
    EXPECT_EQ(row->id, set.provider);
    EXPECT_FALSE(set.packages.empty()) << set.name;
    EXPECT_TRUE(package_name(set.packages.front()).starts_with("onnxruntime")) << set.name;
    // A core brings what is bound to it; a plugin comes without one.
    EXPECT_EQ(set.kind == PackageSet::Kind::core,
              !package_name(set.packages.front()).starts_with("onnxruntime-ep") && set.name != "qnn")
        << set.name;
  }
}

// What a report tells users to type is there to be typed.
TEST(PackageSets, HaveEveryNameThatTheTableProposes) {
  const std::string command = "gpux providers install ";
  std::size_t count = 0;
  for (const provider::ProviderRow& row : provider::table()) {
    if (!row.remedy.starts_with(command)) continue;
    const std::string name = split(row.remedy.substr(command.size()), ';').front();
    EXPECT_EQ(find_package_set(name).provider, row.id);
    ++count;
  }
  EXPECT_GE(count, 8U);
}

// Libraries of two releases of CUDA do not work together.
TEST(PackageSets, NameTheLibrariesOfOneCuda) {
  for (const PackageSet& set : package_sets()) {
    for (const std::string_view package : set.packages) {
      const bool is_of_12 = package.find("-cu12") != std::string_view::npos;
      if (!package.starts_with("nvidia-")) continue;
      EXPECT_EQ(is_of_12, set.name == "cuda12") << package;
    }
  }
}

TEST(PackageSets, AreFoundByTheProvidersNames) {
  EXPECT_EQ(find_package_set("cuda").name, "cuda");
  EXPECT_EQ(find_package_set("NVIDIA").name, "cuda");
  EXPECT_EQ(find_package_set("CUDAExecutionProvider").name, "cuda");
  EXPECT_EQ(find_package_set("cuda12").name, "cuda12");
  EXPECT_EQ(find_package_set("intel").name, "openvino");
  EXPECT_EQ(find_package_set("vulkan").name, "webgpu");
}

TEST(PackageSets, RefuseOthersWithWhatThereIs) {
  struct Case {
    const char* name;
    ErrorCode code;
    const char* words;
  };

  const Case cases[] = {
      {"cudda", ErrorCode::usage, "did you mean 'cuda'"},
      {"xyz", ErrorCode::usage, "accepted: tensorrt, tensorrt-rtx, cuda, cuda12"},
      {"encoder", ErrorCode::usage, "it comes with gpux"},
      {"vitisai", ErrorCode::usage, "Ryzen AI software"},
      {"coreml", ErrorCode::provider_unavailable, "runs on macos only"},
      {"directml", ErrorCode::provider_unavailable, "runs on windows only"},
  };
  for (const Case& one : cases) {
    const Error error = error_of(one.name);
    EXPECT_EQ(error.code(), one.code) << one.name;
    EXPECT_THAT(error.message(), HasSubstr(one.words));
  }
}

TEST(Wanted, IsANameAndPerhapsAVersion) {
  EXPECT_EQ(parse_wanted("cuda").name, "cuda");
  EXPECT_EQ(parse_wanted("cuda").version, "");
  EXPECT_EQ(parse_wanted("webgpu@0.4.0").name, "webgpu");
  EXPECT_EQ(parse_wanted("webgpu@0.4.0").version, "0.4.0");
  // A version becomes a part of a requirement and the name of a folder.
  for (const char* text : {"", "@1", "webgpu@", "webgpu@..", "webgpu@1/2", "webgpu@1 --index-url=x", "webgpu@>=1"}) {
    EXPECT_THROW((void)parse_wanted(text), Error) << text;
  }
}

TEST(Requirements, HaveTheVersionForTheFirstPackage) {
  const PackageSet set{.name = "x", .provider = "cuda", .packages = {"onnxruntime_gpu>=1.27", "nvidia-cublas~=13.0"}};
  EXPECT_THAT(requirements_of(set, ""), ElementsAre("onnxruntime_gpu>=1.27", "nvidia-cublas~=13.0"));
  EXPECT_THAT(requirements_of(set, "1.30.0"), ElementsAre("onnxruntime-gpu==1.30.0", "nvidia-cublas~=13.0"));
}

}  // namespace
}  // namespace gpux::installation
