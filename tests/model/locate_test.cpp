#include "model/locate.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/own_program.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "model/load_settings.h"
#include "model/package_content.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

const fs::path models = fs::path(GPUX_SOURCE_DIR) / "tests" / "models";

class LocateTest : public testing::Test {
 protected:
  void SetUp() override { fs::current_path(folder_.path()); }

  void TearDown() override { fs::current_path("/"); }

  void write_project(const std::string& folder, const std::string& more = "") {
    fs::create_directories(folder);
    fs::copy_file(models / "add.onnx", fs::path(folder) / "model.onnx", fs::copy_options::skip_existing);
    folder_.write(folder + "/gpux.yml", "name: adder\nversion: 2.1\nmodel: {source: ./model.onnx}\n" + more);
  }

  StoredModel build(const std::string& path, const std::string& name, const std::string& provider = "") {
    const std::vector<Reference> names{parse_reference(name)};
    MaybeSetting<std::string> built_for;
    if (!provider.empty()) built_for = {provider, {}};
    return store_.add(package_content(locate(path, store_), built_for), names);
  }

  std::string failure(ErrorCode code, const std::string& argument) {
    try {
      static_cast<void>(locate(argument, store_));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.message();
      EXPECT_THAT(error.message(), testing::Not(HasSubstr("\n")));
      return error.message();
    }
    ADD_FAILURE() << "found";
    return "";
  }

  static std::vector<std::string> names_of(const PackageContent& content) {
    std::vector<std::string> names;
    for (const PackageFile& file : content.files) names.push_back(file.name);
    return names;
  }

  test::TemporaryFolder folder_;
  test::TemporaryFolder home_;
  Store store_{home_.path()};
};

TEST_F(LocateTest, TakesAnOnnxFileAlone) {
  write_project("adder");
  const LocatedModel model = locate("adder/model.onnx", store_);
  EXPECT_EQ(model.onnx_file, "adder/model.onnx");
  EXPECT_EQ(model.name, "model");
  EXPECT_EQ(model.version, "1.0.0");
  EXPECT_FALSE(model.project || model.stored);
  EXPECT_EQ(locate("adder/model.onnx", store_, "adder/gpux.yml").name, "adder");
}

TEST_F(LocateTest, TakesTheIdThatIsPrinted) {
  write_project("adder");
  const StoredModel stored = build("adder", "team/adder:1.0");
  for (const std::string& id : {stored.short_id(), stored.digest, stored.digest.substr(0, 4), "sha256:" + stored.digest,
                                "sha256:" + stored.short_id()}) {
    const LocatedModel model = locate(id, store_);
    ASSERT_TRUE(model.stored) << id;
    EXPECT_EQ(model.stored->digest, stored.digest);
    EXPECT_EQ(model.stored->reference.text(), "team/adder:1.0");
  }
  (void)store_.tag(stored.reference, parse_reference("again"));
  EXPECT_EQ(locate(stored.short_id(), store_).stored->digest, stored.digest) << "two names of one model";
  // A name goes first.
  const std::string same = stored.digest.substr(0, 6);
  folder_.write("adder/gpux.yml", "name: other\nmodel: {source: ./model.onnx}\n");
  const StoredModel other = build("adder", same);
  EXPECT_NE(other.digest, stored.digest);
  EXPECT_EQ(locate(same, store_).stored->digest, other.digest);
  for (const std::string& id : {stored.digest.substr(0, 3), stored.digest + "0", std::string("0000000000001")}) {
    EXPECT_THAT(failure(ErrorCode::not_found, id), HasSubstr("is stored here"));
  }
}

TEST_F(LocateTest, RefusesWhatWasMeantToBeGpuxYml) {
  for (const char* name : {"gpux.yaml", "GPUX.yml", ".gpux.yml", "Gpux.YAML"}) {
    const std::string folder = std::string("of-") + name;
    write_project(folder);
    fs::rename(folder + "/gpux.yml", folder + "/" + name);
    EXPECT_THAT(failure(ErrorCode::invalid_config, folder),
                testing::AllOf(HasSubstr(name), HasSubstr("is not read: the file is called gpux.yml; rename it")));
    // Beside the right one it may say something else.
    folder_.write(folder + "/gpux.yml", "name: adder\nmodel: {source: ./model.onnx}\n");
    EXPECT_THAT(failure(ErrorCode::invalid_config, folder), HasSubstr("remove it, or move its content to"));
    EXPECT_EQ(locate(folder + "/gpux.yml", store_).name, "adder");
  }
  write_project("named");
  fs::rename("named/gpux.yml", "named/gpux.yaml");
  EXPECT_EQ(locate("named/gpux.yaml", store_).name, "adder");  // said by name
}

TEST_F(LocateTest, TakesAFolderWithItsProject) {
  write_project("adder");
  folder_.write("adder/other.yml", "name: other\nmodel: {source: model.onnx}");
  for (const char* path : {"adder", "./adder", "adder/", "adder/gpux.yml"}) {
    const LocatedModel model = locate(path, store_);
    EXPECT_EQ(model.name, "adder") << path;
    EXPECT_EQ(model.version, "2.1");
    EXPECT_EQ(fs::canonical(model.onnx_file), fs::canonical("adder/model.onnx"));
  }
  EXPECT_EQ(locate("adder", store_, "other.yml").name, "other");
  EXPECT_EQ(locate("adder", store_, "adder/other.yml").name, "other");
  fs::current_path("adder");
  EXPECT_EQ(locate(".", store_).name, "adder");
}

TEST_F(LocateTest, TakesTheOnlyOnnxFileOfAFolderAndSaysSo) {
  folder_.write("plain/net.onnx", "x");
  const LocatedModel model = locate("plain", store_);
  EXPECT_EQ(model.name, "plain");
  EXPECT_THAT(model.note, HasSubstr("no gpux.yml in 'plain': using its only ONNX file, 'net.onnx'"));
  folder_.write("plain/second.onnx", "x");
  EXPECT_THAT(failure(ErrorCode::not_found, "plain"),
              HasSubstr("'plain' has no gpux.yml and 2 ONNX files, net.onnx, second.onnx: name one of them"));
  for (const char* name : {"encoder_model.onnx", "decoder_model.onnx"})
    folder_.write(std::string("parts/onnx/") + name, "x");
  EXPECT_THAT(failure(ErrorCode::not_found, "parts"),
              HasSubstr("2 ONNX files, onnx/decoder_model.onnx, onnx/encoder_model.onnx: an encoder and a decoder"));
  fs::create_directory("empty");
  EXPECT_THAT(failure(ErrorCode::not_found, "empty"),
              AllOf(HasSubstr("no gpux.yml and no ONNX file"), Not(HasSubstr("gpux import"))));
  folder_.write("checkpoint/config.json", "{}");
  folder_.write("checkpoint/tokenizer.json", "{}");
  EXPECT_THAT(failure(ErrorCode::not_found, "checkpoint"),
              HasSubstr("no ONNX file; 'gpux import' imports a Hugging Face folder"));
}

TEST_F(LocateTest, ListsStoredModelsWhereANameIsNotFound) {
  EXPECT_THAT(failure(ErrorCode::not_found, "digits"), HasSubstr("'digits:latest' is stored here; the store is empty"));
  write_project("adder");
  build("adder", "digits:1");
  build("adder", "sentiment");
  EXPECT_THAT(failure(ErrorCode::not_found, "digits"),
              HasSubstr("no model 'digits:latest' is stored here; there are digits:1, sentiment:latest"));
  EXPECT_THAT(failure(ErrorCode::not_found, "sentimant"), HasSubstr("did you mean 'sentiment:latest'?"));
  for (const char* path : {"./digits:1", "../nothing", "/nothing", "nothing.onnx", "nothing/", "nothing.yml", "~/x"}) {
    EXPECT_THAT(failure(ErrorCode::not_found, path), HasSubstr("there is no file or folder"));
  }
  EXPECT_THAT(failure(ErrorCode::not_found, "README.md"), HasSubstr("there is no file or folder 'README.md'"));
  for (const char* repository : {"BAAI/bge-small", "org/name"}) {
    EXPECT_THAT(failure(ErrorCode::not_found, repository), HasSubstr(fmt::format("write 'hf.co/{}'", repository)));
  }
  EXPECT_THAT(failure(ErrorCode::not_found, "a/b/c"), Not(HasSubstr("hf.co")));
  EXPECT_THAT(failure(ErrorCode::usage, "My Model"), HasSubstr("is not a model's name"));
  EXPECT_THAT(failure(ErrorCode::usage, "https://host/model.onnx"), HasSubstr("is an address"));
  failure(ErrorCode::usage, "");
  fs::create_directory("sentiment");
  EXPECT_THAT(failure(ErrorCode::not_found, "sentiment"), HasSubstr("write 'sentiment:latest'"));
  write_project("lost");
  fs::remove("lost/model.onnx");
  EXPECT_THAT(failure(ErrorCode::not_found, "lost"), HasSubstr("gpux.yml:3:9: 'model.source' names"));
}

TEST_F(LocateTest, FindsAStoredModelFromAnywhereWhateverLiesHere) {
  write_project("adder", "metadata: {author: me}\nruntime: {strict: true}\n");
  const StoredModel built = build("adder", "kept:1", "openvino");
  fs::remove_all("adder");
  write_project(".", "description: another model\n");
  const LocatedModel model = locate("kept:1", store_);
  ASSERT_TRUE(model.stored && model.project);
  EXPECT_EQ(model.stored->digest, built.digest);
  EXPECT_EQ(model.provider, "openvino");
  EXPECT_EQ(model.stored->package.metadata.at(0).second, "me");
  EXPECT_EQ(model.name, "adder");
  EXPECT_EQ(model.version, "2.1");
  EXPECT_EQ(model.project->runtime.strict, Strictness::provider);
  EXPECT_EQ(content_of(model.onnx_file), content_of(models / "add.onnx"));
  const LocatedModel with_config = locate("kept:1", store_, "gpux.yml");
  ASSERT_TRUE(with_config.project);
  EXPECT_EQ(with_config.project->description, "another model");
}

TEST_F(LocateTest, PacksExternalDataAndFurtherFiles) {
  fs::create_directories("net/onnx");
  for (const char* file : {"external_data.onnx", "external_weight.bin", "external_bias.bin"}) {
    fs::copy_file(models / file, fs::path("net/onnx") / file);
  }
  fs::copy_file(models / "add.onnx", "net/decoder.onnx");
  folder_.write("net/notes.txt", "not packed");
  folder_.write("net/vocab.json", "{}");
  folder_.write("net/own.yml",
                "name: net\nmodel: {source: onnx/external_data.onnx, files: [decoder.onnx, ./vocab.json]}");
  PackageContent content = package_content(locate("net", store_, "own.yml"), {});
  EXPECT_THAT(names_of(content),
              UnorderedElementsAre("onnx/external_data.onnx", "onnx/external_weight.bin", "onnx/external_bias.bin",
                                   "decoder.onnx", "vocab.json", "gpux.yml"));
  add_onnx_file(content, "net/onnx/external_data.onnx", "int8/model.onnx");
  EXPECT_THAT(names_of(content),
              testing::IsSupersetOf({"int8/model.onnx", "int8/external_weight.bin", "int8/external_bias.bin"}));
  EXPECT_THROW(add_onnx_file(content, models / "add.onnx", "int8/model.onnx"), Error);
  const std::vector<Reference> names{{"net"}};
  store_.add(content, names);
  const LocatedModel model = locate("net:latest", store_);
  EXPECT_EQ(model.onnx_file.filename(), "external_data.onnx");
  EXPECT_EQ(content_of(model.onnx_file.parent_path() / "external_weight.bin"),
            content_of(models / "external_weight.bin"));
  EXPECT_EQ(content_of(model.onnx_file.parent_path().parent_path() / "vocab.json"), "{}");
  // Packed again from the store it is the same.
  EXPECT_THAT(names_of(package_content(model, {})), testing::Contains("gpux.yml"));
}

TEST_F(LocateTest, FollowsLinksOfDownloadCaches) {
  fs::create_directories("blobs");
  fs::create_directories("snapshot");
  for (const char* file : {"external_data.onnx", "external_weight.bin", "external_bias.bin"}) {
    fs::copy_file(models / file, fs::path("blobs") / file);
    fs::create_symlink(fs::path("../blobs") / file, fs::path("snapshot") / file);
  }
  const StoredModel model = build("snapshot/external_data.onnx", "linked");
  EXPECT_EQ(model.package.files.size(), 3U);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(store_.materialize(model) / "external_bias.bin")));
}

TEST_F(LocateTest, RefusesPackagesThatCannotBeWhole) {
  const auto code_of = [&](const std::string& path) {
    try {
      static_cast<void>(package_content(locate(path, store_), {}));
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.message();
    }
    return std::string("packed");
  };
  EXPECT_THAT(code_of((models / "external_missing.onnx").string()), HasSubstr("invalid_model: "));
  EXPECT_THAT(code_of((models / "external_outside.onnx").string()), HasSubstr("invalid_model: "));
  EXPECT_THAT(code_of((models / "external_absolute.onnx").string()), HasSubstr("invalid_model: "));
  folder_.write("broken.onnx", "no model");
  EXPECT_THAT(code_of("broken.onnx"), HasSubstr("invalid_model: "));
  write_project("code", "runtime: {provider_libraries: {Mine: ./mine.so}}");
  EXPECT_THAT(code_of("code"), HasSubstr("invalid_config: code/gpux.yml:4:"));
  folder_.write("lacks/gpux.yml", "name: a\nmodel: {source: m.onnx, files: [vocab.json]}");
  fs::copy_file(models / "add.onnx", "lacks/m.onnx");
  EXPECT_THAT(code_of("lacks"), HasSubstr("not_found: lacks/gpux.yml:2:25: 'model.files' names"));
}

TEST_F(LocateTest, TakesNoDecisionsFromPackagesOfOthers) {
  ::setenv("SECRET_TOKEN", "secret", 1);
  write_project(
      "adder",
      "description: a ${SECRET_TOKEN}\nruntime: {gpu: {memory: 64GB}, threads: {intra: 400}, isolation: thread}\n"
      "serving: {host: 0.0.0.0, port: 80}\n");
  const std::vector<Reference> own{parse_reference("own")}, pulled{parse_reference("pulled")};
  PackageContent content = package_content(locate("adder", store_), {});
  (void)store_.add(content, own);
  content.origin = {.source = "https://host.example/adder.onnx", .revision = "1", .file = "adder.onnx"};
  (void)store_.add(content, pulled);

  const LocatedModel mine = locate("own", store_), theirs = locate("pulled", store_);
  EXPECT_EQ(mine.pulled_from, "");
  EXPECT_EQ(mine.project->serving.host, "0.0.0.0");
  EXPECT_EQ(mine.project->description, "a secret");
  EXPECT_EQ(resolve_load({}, mine).options.intra_threads, 400U);
  EXPECT_EQ(theirs.pulled_from, "https://host.example/adder.onnx");
  EXPECT_FALSE(theirs.project->serving.host || theirs.project->serving.port);
  EXPECT_EQ(theirs.project->description, "a ${SECRET_TOKEN}");
  EXPECT_THAT(theirs.project->ignored,
              UnorderedElementsAre("runtime.gpu.memory", "runtime.threads.intra", "runtime.isolation", "serving.host",
                                   "serving.port", "${SECRET_TOKEN}"));
  LoadRequest in_worker;
  in_worker.worker_use = WorkerUse::once;
  const LoadOptions options = resolve_load(in_worker, theirs).options;
  EXPECT_FALSE(options.intra_threads || options.memory_bytes);
  EXPECT_EQ(options.isolation, Isolation::process);
  EXPECT_EQ(options.sandbox, Sandbox::on);
  // A gpux.yml of the user beside it decides.
  const LocatedModel with_own = locate("pulled", store_, "adder/gpux.yml");
  EXPECT_EQ(with_own.project->serving.host, "0.0.0.0");
  EXPECT_EQ(resolve_load({}, with_own).options.intra_threads, 400U);
}

TEST_F(LocateTest, ChecksModelsOfOthersInASandbox) {
  set_worker_program("/proc/self/exe");
  write_project("adder");
  LocatedModel model = locate("adder", store_);
  EXPECT_EQ(resolve_check({}, model).options.isolation, Isolation::thread) << "the user's own";
  model.pulled_from = "https://host.example/adder.onnx";
  ::setenv("GPUX_PROFILE", "/tmp/profile", 1);
  ::setenv("GPUX_PROVIDER", "fastest", 1);
  ::setenv("GPUX_STRICT", "1", 1);
  const LoadOptions options = resolve_check({}, model).options;
  for (const char* name : {"GPUX_PROFILE", "GPUX_PROVIDER", "GPUX_STRICT"}) ::unsetenv(name);
  EXPECT_EQ(options.isolation, Isolation::process);
  EXPECT_EQ(options.sandbox, Sandbox::on);
  EXPECT_FALSE(options.restart_worker);
  EXPECT_EQ(options.provider, "auto");
  EXPECT_EQ(options.strict, Strictness::off);
  EXPECT_EQ(options.profile, "");
  set_worker_program({});
  EXPECT_EQ(resolve_check({}, model).options.isolation, Isolation::thread) << "a program that is not gpux";
}

}  // namespace
}  // namespace gpux
