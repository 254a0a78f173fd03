// What a gpux.yml of a stranger may say: each key of the schema has a decision, and the reader keeps to it.
#include "project/package_keys.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "project/project_file.h"

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void each_key(std::span<const SchemaKey> keys, const std::string& path,
              const std::function<void(const SchemaKey&, const std::string&)>& visit) {
  for (const SchemaKey& key : keys) {
    const std::string name = path.empty() ? std::string(key.name) : path + "." + std::string(key.name);
    visit(key, name);
    each_key(key.keys, name, visit);
  }
}

/// All keys of gpux.yml that are not plainly read.
std::map<std::string, InPackage> decided_keys() {
  std::map<std::string, InPackage> decided;
  each_key(project_schema().keys, "", [&](const SchemaKey& key, const std::string& name) {
    if (key.in_package != InPackage::describes) decided.emplace(name, key.in_package);
  });
  return decided;
}

TEST(PackageKeys, HaveADecisionEach) {
  using enum InPackage;
  const std::map<std::string, InPackage> expected{
      {"runtime.gpu.memory", decides},
      {"runtime.gpu.device", decides},
      {"runtime.providers.options", decides},
      {"runtime.providers.library", not_portable},
      {"runtime.provider_libraries", not_portable},
      {"runtime.custom_ops", not_portable},
      {"runtime.threads.intra", decides},
      {"runtime.threads.inter", decides},
      {"runtime.profile", not_portable},
      {"runtime.enable_profiling", decides},
      {"runtime.isolation", restricts},
      {"serving.host", decides},
      {"serving.port", decides},
      {"serving.batch_axis", restricts},
      {"serving.batching", restricts},
      {"serving.padding", decides},
      {"serving.max_queue_delay", decides},
      {"serving.max_queue", decides},
      {"serving.workers", decides},
      {"serving.max_workers", decides},
      {"serving.max_sequences", decides},
      {"serving.cache_memory", decides},
      {"serving.warm_up", decides},
      {"preprocessing.max_pixels", decides},
  };
  EXPECT_EQ(decided_keys(), expected);
  each_key(project_schema().keys, "", [](const SchemaKey& key, const std::string& name) {
    EXPECT_EQ(key.in_package == restricts, !key.strictest.empty()) << name;
    // Else a package without it could not be read.
    EXPECT_FALSE(key.required && key.in_package != describes && name != "runtime.providers.name") << name;
  });
}

// The page lists them for those who write packages.
TEST(PackageKeys, AreDocumented) {
  const std::string page = test::content_of(GPUX_SOURCE_DIR "/docs/gpux-yml.md");
  const std::size_t begin = page.find("## Packages of others");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin);
  for (const auto& [name, decision] : decided_keys()) EXPECT_THAT(section, HasSubstr("`" + name + "`")) << name;
}

constexpr const char* everything = R"(name: digits
model: {source: model.onnx}
outputs: {y: {type: float32, labels: ["${SECRET_TOKEN}", "${SECRET_TOKEN:-b}", $$c]}}
runtime:
  gpu: {memory: 2GB, device: 3}
  providers: [{cuda: {user_compute_stream: 1}}, {name: tensorrt, options: {a: b}}, cpu]
  threads: {intra: 500, inter: 400}
  enable_profiling: true
  isolation: thread
  timeout: 9
  batch_size: 7
serving:
  host: 0.0.0.0
  port: 80
  batch_size: 6
  batch_axis: 0
  batching: throughput
  padding: {x: 0}
  max_queue_delay: 10h
  max_queue: 1000000
  timeout: 8
  workers: 1024
  max_workers: 1000
  max_sequences: 256
  context_length: 5
  cache_memory: 64GB
  warm_up: [{batch: 1000000000}]
preprocessing: {resize: [8, 8], max_pixels: 2000000000}
)";

TEST(PackageKeys, OfAStrangerDecideNothing) {
  ::setenv("SECRET_TOKEN", "secret", 1);
  const ProjectFile project = parse_project_file(everything, "/p/gpux.yml", Author::stranger);
  std::set<std::string> ignorable{"${SECRET_TOKEN}"};
  for (const auto& [name, decision] : decided_keys()) {
    if (decision != InPackage::not_portable) ignorable.insert(name);
  }
  EXPECT_EQ(std::set<std::string>(project.ignored.begin(), project.ignored.end()), ignorable);
  EXPECT_THAT(project.outputs->front().labels, ElementsAre("${SECRET_TOKEN}", "b", "$c"));
  const RuntimeSettings& runtime = project.runtime;
  EXPECT_FALSE(runtime.memory_limit_bytes || runtime.device || runtime.intra_threads || runtime.inter_threads ||
               runtime.profile || runtime.isolation);
  ASSERT_EQ(runtime.providers.size(), 3U);
  for (const DeclaredProvider& provider : runtime.providers) EXPECT_THAT(provider.options, IsEmpty()) << provider.name;
  EXPECT_EQ(runtime.providers.front().name, "cuda");
  const ServingSettings& serving = project.serving;
  EXPECT_FALSE(serving.host || serving.port || serving.batch_axis || serving.batching || serving.padding ||
               serving.max_queue_delay || serving.max_queue || serving.workers || serving.max_workers ||
               serving.max_sequences || serving.cache_bytes);
  EXPECT_THAT(serving.warm_up, IsEmpty());
  EXPECT_EQ(project.image_recipe->max_pixels, image::Recipe().max_pixels);
  // What describes the model counts.
  EXPECT_EQ(runtime.batch_size, 7);
  EXPECT_EQ(serving.batch_size, 6);
  EXPECT_EQ(serving.context_length, 5U);
  EXPECT_TRUE(runtime.timeout && serving.timeout);
  const std::string line = ignored_line(project, "digits");
  EXPECT_THAT(line, HasSubstr("'digits'"));
  EXPECT_THAT(line, HasSubstr("runtime.gpu.memory"));
  EXPECT_THAT(line, HasSubstr("and 11 more are ignored"));
}

TEST(PackageKeys, OfTheUserCount) {
  ::setenv("SECRET_TOKEN", "secret", 1);
  const ProjectFile project = parse_project_file(everything, "/p/gpux.yml");
  EXPECT_THAT(project.ignored, IsEmpty());
  EXPECT_EQ(ignored_line(project, "digits"), "");
  EXPECT_THAT(project.outputs->front().labels, ElementsAre("secret", "secret", "$c"));
  EXPECT_EQ(project.serving.host, "0.0.0.0");
  EXPECT_EQ(project.serving.port, 80);
  EXPECT_EQ(project.runtime.device, 3U);
  EXPECT_EQ(project.runtime.providers.front().options.size(), 1U);
}

TEST(PackageKeys, ThatRestrictCount) {
  const ProjectFile project = parse_project_file(
      "name: a\nmodel: {source: m}\nruntime: {isolation: process}\nserving: {batch_axis: none, batching: exact, host: "
      "}",
      "/p/gpux.yml", Author::stranger);
  EXPECT_THAT(project.ignored, IsEmpty());
  EXPECT_EQ(project.runtime.isolation, Isolation::process);
  EXPECT_EQ(project.serving.batch_axis, BatchAxis::none);
  EXPECT_EQ(project.serving.batching, "exact");
}

TEST(PackageKeys, AreFoundInEachFormOfAFile) {
  for (const char* text :
       {"runtime: {providers: [{name: cuda, options: {a: b}}]}", "runtime: {providers: [cuda: {a: b}]}"}) {
    const ProjectFile project =
        parse_project_file(std::string("name: a\nmodel: {source: m}\n") + text, "/p/gpux.yml", Author::stranger);
    EXPECT_THAT(project.ignored, UnorderedElementsAre("runtime.providers.options")) << text;
  }
  // What is wrong stays wrong, and code stays refused.
  const auto failure = [](const std::string& below) {
    try {
      require_portable(parse_project_file("name: a\nmodel: {source: m}\n" + below, "/p/gpux.yml", Author::stranger));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(failure("serving: {hots: 1}"), HasSubstr("unknown key 'serving.hots'"));
  EXPECT_THAT(failure("serving: [1]"), HasSubstr("'serving' is a list"));
  EXPECT_THAT(failure("runtime: {custom_ops: [a.so]}"), HasSubstr("a package cannot name"));
  EXPECT_THAT(failure("runtime: {profile: /etc/x}"), HasSubstr("where to write"));
  EXPECT_EQ(failure("serving: {port: not a port}"), "");
}

TEST(PackageKeys, NameNoModelsOfTheMachine) {
  const std::string ensemble = "name: a\nsteps: [{name: b, model: minilm}]\n";
  EXPECT_EQ(parse_project_file(ensemble, "/p/gpux.yml").ensemble->steps.size(), 1);
  try {
    (void)parse_project_file(ensemble, "/p/gpux.yml", Author::stranger);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("'steps' is not supported in packages"));
  }
}

}  // namespace
}  // namespace gpux
