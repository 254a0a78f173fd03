#include "provider/engine_cache.h"

#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/made_machine.h"
#include "gpux/error.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;
using test::TemporaryFolder;
using testing::HasSubstr;

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::uint64_t no_limit = std::uint64_t{1} << 40;

EngineKey some_key() {
  return {.provider = "tensorrt",
          .model = "ab12",
          .version = "1.31.1",
          .driver = "570.1",
          .device = "NVIDIA H100",
          .architecture = "sm_90",
          .options = "trt_fp16_enable=1",
          .shape_profile = "trt_profile_max_shapes=x:8x512"};
}

// What a provider does with its folder.
void compile(const EngineFolder& folder, std::size_t bytes = 100) {
  write_file_atomically(folder.path / "model.engine", std::string(bytes, 'e'));
}

void age(const EngineFolder& folder, std::chrono::hours hours) {
  fs::last_write_time(folder.path / "engine.json", fs::file_time_type::clock::now() - hours);
}

TEST(EngineKey, HasAFolderForEveryDifference) {
  struct Case {
    std::string EngineKey::*member;
    const char* value;
    const char* difference;
  };

  const Case cases[] = {
      {&EngineKey::provider, "tensorrt-rtx", "the provider changed from tensorrt to tensorrt-rtx"},
      {&EngineKey::model, "cd34", "the model changed from ab12 to cd34"},
      {&EngineKey::version, "1.32.0", "the provider's version changed from 1.31.1 to 1.32.0"},
      {&EngineKey::driver, "580.2", "the driver changed from 570.1 to 580.2"},
      {&EngineKey::device, "NVIDIA L4", "the device changed from NVIDIA H100 to NVIDIA L4"},
      {&EngineKey::architecture, "sm_89", "the compute capability changed from sm_90 to sm_89"},
      {&EngineKey::options, "", "the options changed from trt_fp16_enable=1 to none"},
      {&EngineKey::shape_profile, "", "the shape profile changed from trt_profile_max_shapes=x:8x512 to none"},
  };
  const EngineKey key = some_key();
  EXPECT_EQ(folder_name(key), folder_name(some_key()));
  EXPECT_EQ(difference(key, some_key()), "");
  for (const Case& one : cases) {
    EngineKey other = key;
    other.*one.member = one.value;
    EXPECT_NE(folder_name(other), folder_name(key)) << one.value;
    EXPECT_EQ(difference(key, other), one.difference);
  }
  // Where one part ends and the next begins counts.
  EngineKey first = key, second = key;
  first.driver = "1";
  first.device = "23";
  second.driver = "12";
  second.device = "3";
  EXPECT_NE(folder_name(first), folder_name(second));
}

TEST(EngineKey, IsMadeOfWhatTheProviderIsPassed) {
  ResolvedOptions options;
  options.passed = {{"trt_profile_min_shapes", "x:1x1"},
                    {"trt_fp16_enable", "1"},
                    {"device_id", "1"},
                    {"trt_engine_cache_path", "/elsewhere"}};
  const Device device{.kind = "gpu", .name = "NVIDIA H100", .vendor = {}, .driver = "570.1", .architecture = "sm_90"};
  const EngineKey key = engine_key(*find_row("tensorrt"), "ab12", "1.31.1", options, device);
  EXPECT_EQ(key.options, "device_id=1, trt_fp16_enable=1");
  EXPECT_EQ(key.shape_profile, "trt_profile_min_shapes=x:1x1");
  EXPECT_EQ(key.driver, "570.1");
  EXPECT_EQ(key.architecture, "sm_90");
  // The order in which options are given says nothing, nor where engines are kept.
  std::swap(options.passed[0], options.passed[2]);
  options.passed.pop_back();
  EXPECT_EQ(engine_key(*find_row("tensorrt"), "ab12", "1.31.1", options, device), key);
}

// Another build of the same version compiles otherwise.
TEST(EngineKey, HasTheStateOfTheLibrary) {
  const TemporaryFolder folder;
  const fs::path library = folder.write("libprovider.so", "code");
  const std::string before = compiled_by("1.31.1", library);
  EXPECT_THAT(before, testing::StartsWith("1.31.1 (libprovider.so of 4 bytes"));
  EXPECT_EQ(compiled_by("1.31.1", library), before);
  EXPECT_NE(compiled_by("1.31.2", library), before);
  fs::last_write_time(library, fs::file_time_type::clock::now() - 1h);
  EXPECT_NE(compiled_by("1.31.1", library), before);
  EXPECT_EQ(compiled_by("1.31.1", folder.path() / "none"), "1.31.1");
}

// The user's own folder wins.
TEST(EngineKey, HasTheStateOfTheLibrariesThatCompile) {
  const TemporaryFolder folder;
  const fs::path library = folder.write("libonnxruntime_providers_tensorrt.so", "a bridge");
  const std::vector<fs::path> compilers{folder.write("libnvinfer.so.10.3.0", "a compiler")};
  const std::string before = compiled_by("1.31.1", library, compilers);
  EXPECT_THAT(before, HasSubstr("libnvinfer.so.10.3.0 of 10 bytes"));
  EXPECT_THAT(before, HasSubstr("libonnxruntime_providers_tensorrt.so of 8 bytes"));
  EXPECT_EQ(compiled_by("1.31.1", library, compilers), before);
  EXPECT_NE(compiled_by("1.31.1", library), before);
  folder.write("libnvinfer.so.10.3.0", "another compiler");
  EXPECT_NE(compiled_by("1.31.1", library, compilers), before);
}

// The C++ library stands for one that compiles: it is loaded here by a link to a name with its version.
TEST(EngineKey, FindsLoadedLibrariesByTheBeginningOfTheirNames) {
  ProviderRow row{.id = "made", .compilers = {"libstdc++.so"}};
  const std::vector<fs::path> found = loaded_compilers(row);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(fs::is_regular_file(found.front()));
  EXPECT_FALSE(fs::is_symlink(found.front()));
  row.compilers = {"libnvinfer.so"};
  EXPECT_TRUE(loaded_compilers(row).empty());
  for (const char* id : {"tensorrt", "tensorrt-rtx", "migraphx"}) EXPECT_FALSE(find_row(id)->compilers.empty()) << id;
}

TEST(EngineCache, DiscardsWhatWasCompiled) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), no_limit);
  const EngineFolder made = cache.open(some_key());
  compile(made);
  fs::create_directories(made.path / "more");
  EXPECT_TRUE(cache.open(some_key()).is_warm);
  discard_engines(made.path);
  EXPECT_TRUE(fs::exists(made.path / "engine.json"));
  EXPECT_FALSE(cache.open(some_key()).is_warm);
}

TEST(EngineFolder, IsForProvidersThatTakeOneAndWereGivenNone) {
  struct Case {
    const char* id;
    bool as_plugin;
    OptionList given;
    bool takes;
  };

  const Case cases[] = {
      {"tensorrt", false, {}, true},
      {"tensorrt", false, {{"trt_fp16_enable", "1"}}, true},
      {"tensorrt", false, {{"trt_engine_cache_enable", "0"}}, false},
      {"tensorrt", false, {{"trt_engine_cache_path", "/e"}}, false},
      {"tensorrt", false, {{"cache_directory", "/e"}}, false},
      {"tensorrt-rtx", true, {}, true},
      {"tensorrt-rtx", true, {{"nv_runtime_cache_path", "/e"}}, false},
      {"openvino", false, {}, true},
      {"openvino", false, {{"load_config", "c.json"}}, true},
      {"openvino", true, {{"load_config", "{}"}}, false},
      {"openvino", false, {{"cache_dir", "/e"}}, false},
      {"migraphx", false, {}, true},
      {"coreml", false, {}, true},
      {"cuda", false, {}, false},
      {"webgpu", true, {}, false},
      {"cpu", false, {}, false},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(takes_engine_folder(*find_row(one.id), one.as_plugin, one.given), one.takes) << one.id;
  }
}

TEST(EngineFolder, IsForDevicesThatGainByIt) {
  const Device processor{.kind = "cpu", .name = {}, .vendor = {}}, gpu{.kind = "gpu", .name = {}, .vendor = {}};
  EXPECT_FALSE(gains_by_engines(*find_row("openvino"), processor));
  EXPECT_TRUE(gains_by_engines(*find_row("openvino"), gpu));
  EXPECT_TRUE(gains_by_engines(*find_row("openvino"), std::nullopt));
  EXPECT_TRUE(gains_by_engines(*find_row("tensorrt"), gpu));
}

TEST(EngineFolder, IsToldToTheProvider) {
  struct Case {
    const char* id;
    OptionList passed;
  };

  const Case cases[] = {
      {"tensorrt",
       {{"trt_engine_cache_enable", "1"},
        {"trt_engine_cache_path", "/e"},
        {"trt_timing_cache_enable", "1"},
        {"trt_timing_cache_path", "/e"}}},
      {"migraphx", {{"migraphx_model_cache_dir", "/e"}}},
      {"coreml", {{"ModelCacheDirectory", "/e"}}},
      {"openvino", {{"cache_dir", "/e"}}},
  };
  for (const Case& one : cases) {
    const ResolvedOptions options = resolve_options(*find_row(one.id), {}, {.cache_directory = "/e"}, false);
    EXPECT_EQ(options.passed, one.passed) << one.id;
    for (const auto& [name, value] : options.passed) EXPECT_TRUE(is_cache_option(name)) << name;
  }
}

TEST(EngineCache, IsWarmForTheSameKeyOnly) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), no_limit);
  const EngineFolder first = cache.open(some_key());
  EXPECT_FALSE(first.is_warm);
  EXPECT_EQ(first.reason, "");
  EXPECT_TRUE(fs::is_directory(first.path));
  // Made, and nothing compiled: as after a start that failed.
  EXPECT_FALSE(cache.open(some_key()).is_warm);
  compile(first);
  const EngineFolder second = cache.open(some_key());
  EXPECT_TRUE(second.is_warm);
  EXPECT_EQ(second.path.string(), first.path.string());
  EXPECT_EQ(second.reason, "");
}

TEST(EngineCache, SaysWhyAModelIsCompiledAgain) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), no_limit);
  EngineKey key = some_key();
  key.driver = "560.1";
  const EngineFolder oldest = cache.open(key);
  compile(oldest);
  age(oldest, 2h);
  const EngineFolder before = cache.open(some_key());
  EXPECT_EQ(before.reason, "the driver changed from 560.1 to 570.1");
  compile(before);
  age(before, 1h);
  // Compared with what was used last.
  key.driver = "580.2";
  EXPECT_EQ(cache.open(key).reason, "the driver changed from 570.1 to 580.2");
  // Another model is not one that was compiled before.
  key.model = "cd34";
  EXPECT_EQ(cache.open(key).reason, "");
}

TEST(EngineCache, RemovesWhatWasNotUsedForTheLongestTime) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), 2500);
  std::vector<EngineFolder> folders;
  EngineKey key = some_key();
  for (const char* model : {"a", "b", "c"}) {
    key.model = model;
    folders.push_back(cache.open(key));
    compile(folders.back(), 700);
    age(folders.back(), std::chrono::hours(3 - folders.size()) + 1h);
  }
  // The oldest is used again.
  key.model = "a";
  EXPECT_TRUE(cache.open(key).is_warm);
  age(folders[0], 1h);
  key.model = "d";
  const EngineFolder last = cache.open(key);
  EXPECT_TRUE(fs::exists(folders[0].path));
  EXPECT_FALSE(fs::exists(folders[1].path));
  EXPECT_TRUE(fs::exists(last.path));
}

// Another process may be reading it.
TEST(EngineCache, KeepsWhatIsInUse) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), 1);
  const EngineFolder used = cache.open(some_key());
  compile(used);
  EngineKey key = some_key();
  key.model = "cd34";
  (void)cache.open(key);
  EXPECT_TRUE(fs::exists(used.path));
  age(used, 1h);
  key.model = "ef56";
  (void)cache.open(key);
  EXPECT_FALSE(fs::exists(used.path));
}

TEST(EngineCache, IsDoneWithoutWhereItCannotBeMade) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("engines", "a file");
  EXPECT_TRUE(EngineCache(file, no_limit).open(some_key()).path.empty());
}

// A record that is none belongs to no engine that a reason could name.
TEST(EngineCache, ReadsDamagedRecordsAsNone) {
  const TemporaryFolder folder;
  const EngineCache cache(folder.path(), no_limit);
  const EngineFolder first = cache.open(some_key());
  compile(first);
  EngineKey key = some_key();
  key.driver = "580.2";
  for (const char* record : {"", "{}", "[]", "{\"model\": 3}"}) {
    write_file_atomically(first.path / "engine.json", std::string_view(record));
    EXPECT_EQ(cache.open(key).reason, "") << record;
  }
}

TEST(EngineCache, HasTheSizeOfTheEnvironment) {
  EXPECT_TRUE(EngineCache::of(MadeMachine("env HOME=/home/ada\n")));
  EXPECT_TRUE(EngineCache::of(MadeMachine("env HOME=/home/ada\nenv GPUX_ENGINE_CACHE_SIZE=2GB\n")));
  EXPECT_FALSE(EngineCache::of(MadeMachine("env HOME=/home/ada\nenv GPUX_ENGINE_CACHE_SIZE=0\n")));
  EXPECT_THROW((void)EngineCache::of(MadeMachine("env HOME=/home/ada\nenv GPUX_ENGINE_CACHE_SIZE=lots\n")), Error);
}

TEST(ModelDigest, ChangesWithTheModelAndItsWeights) {
  const TemporaryFolder folder;
  const fs::path model = folder.write("model.onnx", "model"), weights = folder.write("weights", "1234");
  const std::vector<fs::path> alone_files{model}, files{model, weights};
  const std::string alone = model_digest(alone_files), with = model_digest(files);
  EXPECT_EQ(model_digest(alone_files), alone);
  EXPECT_NE(with, alone);
  folder.write("weights", "12345");
  const std::string longer = model_digest(files);
  EXPECT_NE(longer, with);
  const fs::file_time_type time = fs::last_write_time(weights);
  folder.write("weights", "54321");
  fs::last_write_time(weights, time);
  EXPECT_NE(model_digest(files), longer) << "of the same size and time";
  folder.write("model.onnx", "another");
  EXPECT_NE(model_digest(alone_files), alone);
}

}  // namespace
}  // namespace gpux::provider
