#include "store/store.h"

#include <cerrno>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class StoreTest : public testing::Test {
 protected:
  PackageContent content(const std::string& weights) {
    PackageContent content;
    content.name = "digits";
    content.version = "1.0.0";
    content.model_file = "model.onnx";
    content.files = {{files_.write("model.onnx", "graph"), "model.onnx"},
                     {files_.write("weights-" + weights, weights), "data/weights.bin"},
                     {files_.write("gpux.yml", "name: digits"), "gpux.yml"}};
    return content;
  }

  StoredModel add(const std::string& weights, const std::string& name) {
    const std::vector<Reference> names{parse_reference(name)};
    return store_.add(content(weights), names);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const StoredModel& model : store_.list()) names.push_back(model.reference.text());
    return names;
  }

  std::size_t blob_count() const {
    const fs::path blobs = root_ / "blobs" / "sha256";
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(blobs), fs::directory_iterator()));
  }

  static std::string storage_message(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::storage) << error.message();
      EXPECT_THAT(error.message(), Not(HasSubstr("\n")));
      return error.message();
    }
    ADD_FAILURE() << "nothing was wrong";
    return "";
  }

  test::TemporaryFolder folder_;
  test::TemporaryFolder files_;
  fs::path root_ = folder_.path() / "home";
  Store store_{root_};
};

TEST_F(StoreTest, IsEmptyAndMakesNothingWhenRead) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_FALSE(store_.find({"digits"}));
  EXPECT_EQ(store_.prune().files, 0U);
  EXPECT_THROW(store_.remove({"digits"}), Error);
  EXPECT_THROW(store_.tag({"digits"}, {"other"}), Error);
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(StoreTest, KeepsAPackageAsAnOciLayout) {
  const std::vector<Reference> both{{"digits", "1.0.0"}, {"digits", "latest"}};
  const StoredModel added = store_.add(content("www"), both);
  EXPECT_EQ(content_of(root_ / "oci-layout"), R"({"imageLayoutVersion":"1.0.0"})");
  const auto index = nlohmann::json::parse(content_of(root_ / "index.json"));
  EXPECT_EQ(index["schemaVersion"], 2);
  ASSERT_EQ(index["manifests"].size(), 2U);
  EXPECT_EQ(index["manifests"][0]["digest"], "sha256:" + added.digest);
  EXPECT_EQ(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "digits:1.0.0");
  EXPECT_EQ(index["manifests"][0]["size"], fs::file_size(root_ / "blobs" / "sha256" / added.digest));
  EXPECT_EQ(added.short_id(), added.digest.substr(0, 12));

  const std::optional<StoredModel> found = Store(root_).find({"digits"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->digest, added.digest);
  EXPECT_EQ(found->package.name, "digits");
  EXPECT_EQ(found->package.total_bytes(), 5U + 3 + 12);
  EXPECT_THAT(found->created, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_THAT(store_.verify(*found), testing::IsEmpty());
}

TEST_F(StoreTest, GivesTheSameContentTheSameIdentity) {
  const std::string first = add("www", "a").digest;
  const std::size_t blobs = blob_count();
  EXPECT_EQ(add("www", "b").digest, first);
  EXPECT_EQ(blob_count(), blobs);
  EXPECT_NE(add("other", "c").digest, first);
}

TEST_F(StoreTest, LaysPackagesOutAsFiles) {
  const StoredModel model = add("www", "digits");
  const fs::path tree = store_.materialize(model);
  EXPECT_EQ(tree, root_ / "trees" / model.digest);
  EXPECT_EQ(content_of(tree / "model.onnx"), "graph");
  EXPECT_EQ(content_of(tree / "data" / "weights.bin"), "www");
  EXPECT_FALSE(fs::is_symlink(tree / "data" / "weights.bin"));
  EXPECT_EQ(fs::hard_link_count(tree / "data" / "weights.bin"), 2U);
  fs::remove_all(tree);
  EXPECT_EQ(store_.materialize(model), tree);
  EXPECT_EQ(content_of(tree / "model.onnx"), "graph");
  fs::remove(tree / "model.onnx");
  fs::create_symlink("/etc/passwd", tree / "model.onnx");
  EXPECT_EQ(content_of(store_.materialize(model) / "model.onnx"), "graph");
  EXPECT_TRUE(fs::is_empty(root_ / "tmp"));
}

TEST_F(StoreTest, MovesAndRemovesNames) {
  add("one", "digits:1");
  const StoredModel second = add("two", "digits:2");
  EXPECT_EQ(store_.tag({"digits", "2"}, {"digits", "latest"}).reference.text(), "digits:latest");
  EXPECT_THAT(names(), ElementsAre("digits:1", "digits:2", "digits:latest"));
  store_.tag({"digits", "1"}, {"digits", "latest"});
  EXPECT_EQ(store_.find({"digits"})->digest, store_.find({"digits", "1"})->digest);
  EXPECT_EQ(store_.remove({"digits", "2"}).digest, second.digest);
  EXPECT_FALSE(fs::exists(root_ / "trees" / second.digest));
  EXPECT_FALSE(fs::exists(root_ / "blobs" / "sha256" / second.digest));
  store_.remove({"digits", "1"});
  EXPECT_THAT(names(), ElementsAre("digits:latest"));
  EXPECT_THAT(store_.verify(*store_.find({"digits"})), testing::IsEmpty());
  store_.remove({"digits"});
  EXPECT_EQ(blob_count(), 0U);
  try {
    store_.remove({"digits"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
}

TEST_F(StoreTest, PrunesWhatNoNameLeadsTo) {
  const StoredModel replaced = add("one", "digits");
  add("two", "digits");
  EXPECT_TRUE(fs::exists(root_ / "trees" / replaced.digest));
  std::ofstream(root_ / "tmp" / "blob-abc") << "cut";
  std::ofstream(root_ / "index.json.part.abc") << "cut";
  fs::create_directories(root_ / "tmp" / "tree-abc" / "data");
  std::ofstream(root_ / "providers") << "somebody else's";
  const PruneResult result = store_.prune();
  EXPECT_EQ(result.files, 5U);  // manifest, config, weights, two scraps
  EXPECT_GT(result.bytes, 9U);
  EXPECT_FALSE(fs::exists(root_ / "trees" / replaced.digest));
  EXPECT_FALSE(fs::exists(root_ / "index.json.part.abc"));
  EXPECT_TRUE(fs::is_empty(root_ / "tmp"));
  EXPECT_TRUE(fs::exists(root_ / "providers"));
  EXPECT_THAT(store_.verify(*store_.find({"digits"})), testing::IsEmpty());
  EXPECT_EQ(store_.prune().files, 0U);
}

TEST_F(StoreTest, KeepsWhatOthersPutIntoTheIndex) {
  add("one", "digits");
  auto index = nlohmann::json::parse(content_of(root_ / "index.json"));
  const std::string digest = "e8dd6b4d3d9d3d9b54b8b3e0b3c6b6ad15ab0c8a5a9e3a2a8d7e9a5d8c8f0b1a";
  index["manifests"].push_back({{"digest", "sha256:" + digest},
                                {"size", 1},
                                {"annotations", {{"org.opencontainers.image.ref.name", "Not Ours"}}}});
  std::ofstream(root_ / "index.json") << index;
  add("two", "other");
  EXPECT_THAT(names(), ElementsAre("digits:latest", "other:latest"));
  EXPECT_THAT(content_of(root_ / "index.json"), HasSubstr("Not Ours"));
  // What it uses cannot be known, so nothing may be thrown away.
  EXPECT_THAT(storage_message([&] { store_.prune(); }), HasSubstr(digest));
}

TEST_F(StoreTest, RefusesNamesThatLeaveThePackage) {
  for (const char* name : {"../x", "/x", "a/../../x", ""}) {
    PackageContent bad = content("www");
    bad.files[1].name = name;
    const std::vector<Reference> names{{"digits"}};
    EXPECT_THROW(store_.add(bad, names), Error) << name;
  }
  PackageContent doubled = content("www");
  doubled.files[1].name = "model.onnx";
  EXPECT_THROW(store_.add(doubled, {}), Error);
  PackageContent missing = content("www");
  missing.files[1].source = "/nowhere";
  EXPECT_THROW(store_.add(missing, {}), Error);
  EXPECT_TRUE(store_.list().empty());
}

TEST_F(StoreTest, SaysInOneLineWhatIsDamaged) {
  struct Case {
    std::string text, message;
  };

  const std::vector<Case> cases{
      {"", "index.json' is damaged"},
      {"{", "index.json' is damaged"},
      {"[]", "it has no list of manifests"},
      {R"({"manifests": 5})", "it has no list of manifests"},
      {R"({"manifests": [5]})", "an entry is no object"},
      {R"({"manifests": [{"digest": "sha256:../x"}]})", "an entry has no SHA-256 digest"},
      {R"({"manifests": [{"digest": 5}]})", "index.json' is damaged"},
      {R"({"manifests": [{"digest": "sha256:)" + std::string(64, 'a') + R"(", "annotations": 5}]})", ""},
      {std::string(1'000'000, '['), "index.json' is damaged"},
  };
  add("one", "digits");
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text.substr(0, 100));
    std::ofstream(root_ / "index.json") << one.text;
    if (one.message.empty()) {
      EXPECT_TRUE(store_.list().empty());
      continue;
    }
    EXPECT_THAT(storage_message([&] { static_cast<void>(store_.list()); }), HasSubstr(one.message));
    EXPECT_THAT(storage_message([&] { static_cast<void>(store_.find({"digits"})); }), HasSubstr(one.message));
    EXPECT_THAT(storage_message([&] { store_.prune(); }), HasSubstr(one.message));
    EXPECT_THAT(storage_message([&] { add("two", "other"); }), HasSubstr(one.message));
    EXPECT_EQ(content_of(root_ / "index.json"), one.text);
  }
}

TEST_F(StoreTest, ShowsADamagedPackageAndLetsItBeRemoved) {
  const StoredModel damaged = add("one", "digits:1");
  add("two", "digits:2");
  const fs::path manifest = root_ / "blobs" / "sha256" / damaged.digest;
  fs::permissions(manifest, fs::perms::owner_all);
  std::ofstream(manifest) << "other";
  ASSERT_EQ(store_.list().size(), 2U);
  EXPECT_THAT(store_.list()[0].damage, HasSubstr("its content is not what its name says"));
  EXPECT_EQ(store_.list()[1].damage, "");
  EXPECT_THAT(storage_message([&] { static_cast<void>(store_.find({"digits", "1"})); }), HasSubstr("digits:1"));
  EXPECT_THAT(storage_message([&] { store_.prune(); }), HasSubstr(damaged.digest));
  store_.remove({"digits", "1"});
  EXPECT_THAT(names(), ElementsAre("digits:2"));
  EXPECT_NO_THROW(store_.prune());
}

TEST_F(StoreTest, FindsChangedAndMissingBlobs) {
  const StoredModel model = add("one", "digits");
  const fs::path changed = root_ / "blobs" / "sha256" / model.package.files[1].blob.digest;
  fs::permissions(changed, fs::perms::owner_all);
  std::ofstream(changed) << "eno";
  fs::remove(root_ / "blobs" / "sha256" / model.package.files[0].blob.digest);
  EXPECT_THAT(store_.verify(model), ElementsAre("'model.onnx' is missing or cut", "'data/weights.bin' has changed"));
}

TEST_F(StoreTest, SaysInOneLineWhereItCannotWrite) {
  files_.write("file", "");
  Store on_a_file(files_.path() / "file");
  EXPECT_THAT(storage_message([&] { static_cast<void>(on_a_file.list()); }), HasSubstr("is not a folder"));
  const std::vector<Reference> names{{"digits"}};
  storage_message([&] { on_a_file.add(content("www"), names); });
  Store below_a_file(files_.path() / "file" / "home");
  storage_message([&] { below_a_file.add(content("www"), names); });
  fs::create_directories(root_ / "blobs");
  std::ofstream(root_ / "blobs" / "sha256") << "in the way";
  EXPECT_THAT(storage_message([&] { add("www", "digits"); }), HasSubstr("make the folder"));
}

// As uid 65534 where this is root, whom modes do not stop: 0 where the store can be read but not written.
int try_read_only(const Store& store, const StoredModel& model) {
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 3;
  try {
    if (store.list().size() != 1) return 4;
    if (content_of(store.materialize(*store.find(model.reference)) / "model.onnx") != "graph") return 5;
    Store(store).remove(model.reference);
    return 6;
  } catch (const Error& error) {
    return error.code() == ErrorCode::storage ? 0 : 7;
  }
}

TEST_F(StoreTest, RunsFromAReadOnlyHome) {
  const StoredModel model = add("www", "digits");
  fs::permissions(folder_.path(), fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    fs::permissions(entry, fs::perms(entry.is_directory() ? 0555 : 0444));
  }
  fs::permissions(root_, fs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(try_read_only(store_, model));
  int status = 0;
  ::waitpid(child, &status, 0);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) fs::permissions(entry, fs::perms(0755));
  fs::permissions(root_, fs::perms(0755));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
}

// A process that can write files of 64 KiB only, as a full disk would have it.
int try_full_disk(Store store, const PackageContent& content) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{65536, 65536};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
  try {
    const std::vector<Reference> names{{"large"}};
    store.add(content, names);
    return 4;
  } catch (const Error& error) {
    return error.code() == ErrorCode::storage && error.message().find("cannot write") == 0 ? 0 : 5;
  }
}

TEST_F(StoreTest, LosesNothingOnAFullDisk) {
  add("one", "digits");
  const PackageContent large = content(std::string(200, 'x'));
  std::ofstream(large.files[1].source) << std::string(1'000'000, 'x');
  const pid_t child = ::fork();
  if (child == 0) ::_exit(try_full_disk(store_, large));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(names(), ElementsAre("digits:latest"));
  EXPECT_THAT(store_.verify(*store_.find({"digits"})), testing::IsEmpty());
  EXPECT_TRUE(fs::is_empty(root_ / "tmp"));
}

TEST_F(StoreTest, ServesThreadsAtOnce) {
  std::vector<PackageContent> contents;
  for (int i = 0; i < 4; ++i) contents.push_back(content("w" + std::to_string(i)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Store store(root_);
      for (int k = 0; k < 5; ++k) {
        const std::vector<Reference> names{{"m" + std::to_string(i), std::to_string(k)}};
        store.add(contents[static_cast<std::size_t>(i)], names);
        store.prune();
        static_cast<void>(store.list());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(store_.list().size(), 20U);
  for (const StoredModel& model : store_.list()) {
    EXPECT_EQ(model.damage, "");
    EXPECT_THAT(store_.verify(model), testing::IsEmpty());
  }
}

TEST_F(StoreTest, SurvivesALossOfPowerOnceAPackageIsStored) {
  const test::RecordedDisk disk;
  const StoredModel model = add("www", "digits");
  for (const StoredFile& file : model.package.files) {
    EXPECT_EQ(disk.risk_of_replaced(root_ / "blobs/sha256" / file.blob.digest), "") << file.name;
  }
  EXPECT_EQ(disk.risk_of_replaced(root_ / "blobs/sha256" / model.digest), "") << "the manifest";
  for (const char* file : {"index.json", "oci-layout"}) EXPECT_EQ(disk.risk_of_replaced(root_ / file), "") << file;
  for (const char* parent : {"", "blobs"}) {
    EXPECT_TRUE(disk.has_synced_names(*parent == '\0' ? root_ : root_ / parent)) << parent;
  }
  EXPECT_TRUE(disk.has_synced_names(folder_.path()));
}

// The index may name a package only when all of it is on the disk.
TEST_F(StoreTest, SyncsAPackageBeforeItGetsItsName) {
  std::string risk = "the index was not written";
  const test::RecordedDisk* recorded = nullptr;
  std::vector<fs::path> blobs;
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation != DiskOperation::rename) return 0;
    if (call.target.parent_path() == root_ / "blobs/sha256") blobs.push_back(call.target);
    if (call.target != root_ / "index.json") return 0;
    risk.clear();
    for (const fs::path& blob : blobs) risk += recorded->risk_of_replaced(blob);
    return 0;
  });
  recorded = &disk;
  add("www", "digits");
  EXPECT_EQ(blobs.size(), 5U);
  EXPECT_EQ(risk, "");
}

TEST_F(StoreTest, ReplacesAnOverwrittenBlobWhenThePackageIsStoredAgain) {
  const StoredModel model = add("www", "digits");
  const fs::path blob = root_ / "blobs/sha256" / model.package.find("data/weights.bin")->blob.digest;
  const fs::path laid_out = store_.materialize(model) / "data/weights.bin";
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(blob) << "xxx";  // as many bytes, in the tree as well: it is the same file
  EXPECT_THAT(store_.verify(model), ElementsAre("'data/weights.bin' has changed"));
  EXPECT_EQ(add("www", "digits").digest, model.digest);
  EXPECT_EQ(content_of(blob), "www");
  EXPECT_EQ(content_of(laid_out), "www");
  EXPECT_THAT(store_.verify(model), testing::IsEmpty());
}

TEST_F(StoreTest, FindsAndReplacesAnOverwrittenCopyOfABlob) {
  const StoredModel model = add("www", "digits");
  const fs::path laid_out = store_.materialize(model) / "data/weights.bin";
  fs::remove(laid_out);  // as where hard links cannot be made
  std::ofstream(laid_out) << "xxx";
  EXPECT_THAT(store_.verify(model), ElementsAre("'data/weights.bin' has changed where it is laid out"));
  add("www", "digits");
  EXPECT_EQ(content_of(laid_out), "www");
}

// Between its check and its rename a package that is laid out must not lose its files to one who removes it.
TEST_F(StoreTest, KeepsAPackageThatIsLaidOutWhileItIsRemoved) {
  const StoredModel model = add("www", "digits");
  const fs::path tree = store_.materialize(model);
  fs::remove_all(tree);
  bool is_removed = false;
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation == DiskOperation::rename && call.target == tree && !is_removed) {
      is_removed = true;
      Store(root_).remove({"digits"});
    }
    return 0;
  });
  EXPECT_EQ(store_.materialize(model), tree);
  EXPECT_TRUE(is_removed);
  EXPECT_EQ(content_of(tree / "model.onnx"), "graph");
  EXPECT_EQ(content_of(tree / "data/weights.bin"), "www");
  EXPECT_THAT(names(), testing::IsEmpty());
  store_.prune();
  EXPECT_FALSE(fs::exists(tree));
}

// Until it has a name nothing leads to a package's blobs.
TEST_F(StoreTest, KeepsAPackageThatIsStoredWhileAnotherIsRemoved) {
  add("vvv", "other");
  bool is_removed = false;
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation == DiskOperation::rename && call.target.parent_path() == root_ / "trees" && !is_removed) {
      is_removed = true;
      Store(root_).remove({"other"});
    }
    return 0;
  });
  const StoredModel model = add("www", "digits");
  EXPECT_TRUE(is_removed);
  EXPECT_THAT(store_.verify(model), testing::IsEmpty());
  EXPECT_EQ(content_of(store_.materialize(model) / "data/weights.bin"), "www");
}

TEST_F(StoreTest, RemovesOneOfTwoNamesThoughTheDiskIsFull) {
  const StoredModel model = add("www", "digits");
  store_.tag({"digits"}, {"other"});
  {
    // Nothing makes room: the other name keeps the files.
    const test::RecordedDisk disk([](const DiskCall& call) {
      const bool is_new = call.path.filename().string().find(".part.") != std::string::npos;
      return call.operation == DiskOperation::write && is_new ? ENOSPC : 0;
    });
    EXPECT_EQ(store_.remove({"digits"}).digest, model.digest);
    EXPECT_EQ(disk.risk_of_appended(root_ / "index.json"), "");
  }
  EXPECT_THAT(names(), ElementsAre("other:latest"));
  EXPECT_THAT(store_.verify(*store_.find({"other"})), testing::IsEmpty());
  // A blank end is no part of the document.
  store_.tag({"other"}, {"third"});
  EXPECT_THAT(names(), ElementsAre("other:latest", "third:latest"));
}

TEST_F(StoreTest, RemovesAPackageThoughTheDiskIsFull) {
  const StoredModel model = add("www", "digits");
  const StoredModel other = add("other", "other");
  const fs::path weights = root_ / "blobs/sha256" / model.package.find("data/weights.bin")->blob.digest;
  {
    const test::RecordedDisk disk([&](const DiskCall& call) {
      return call.operation == DiskOperation::write && fs::exists(weights) ? ENOSPC : 0;
    });
    EXPECT_EQ(store_.remove({"digits"}).digest, model.digest);
  }
  EXPECT_FALSE(fs::exists(weights));
  EXPECT_THAT(names(), ElementsAre("other:latest"));
  EXPECT_THAT(store_.verify(other), testing::IsEmpty());
  {
    // Where that makes no room either, or it is another failure, it is said.
    const test::RecordedDisk disk(
        [](const DiskCall& call) { return call.operation == DiskOperation::write ? EIO : 0; });
    EXPECT_THAT(storage_message([&] { store_.remove({"other"}); }), HasSubstr("Input/output error"));
  }
  EXPECT_THAT(store_.verify(*store_.find({"other"})), testing::IsEmpty());
}

}  // namespace
}  // namespace gpux
