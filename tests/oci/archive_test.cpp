#include "registry/oci/archive.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

StoredModel add_model(Store& store, const test::TemporaryFolder& files, const std::string& content) {
  PackageContent package;
  package.name = "kept";
  package.version = "1";
  package.model_file = "model.onnx";
  package.files = {{files.write("model.onnx", content), "model.onnx"}};
  const std::vector<Reference> names{{"kept", content}};
  return store.add(package, names);
}

TEST(Archive, CarriesModelsFromStoreToStore) {
  const test::TemporaryFolder folder;
  Store from(folder.path() / "from"), to(folder.path() / "to");
  const std::vector<StoredModel> models{add_model(from, folder, "a"), add_model(from, folder, "b")};
  save_archive(from, models, folder.path() / "x.tar");
  const std::vector<StoredModel> loaded = load_archive(to, folder.path() / "x.tar", {});
  ASSERT_EQ(loaded.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded[i].digest, models[i].digest);
    EXPECT_EQ(loaded[i].reference, models[i].reference);
    EXPECT_TRUE(to.verify(loaded[i]).empty());
    EXPECT_EQ(test::content_of(to.materialize(loaded[i]) / "model.onnx"), models[i].reference.tag);
  }
  const std::vector<Reference> name{{"other", "1"}};
  EXPECT_THROW(load_archive(to, folder.path() / "x.tar", name), Error) << "one name for two models";
  EXPECT_TRUE(std::filesystem::exists(to.root() / "downloads/blobs"));
  to.prune();
  EXPECT_FALSE(std::filesystem::exists(to.root() / "downloads/blobs"));
}

TEST(Archive, OneBentByteLoadsNothing) {
  const test::TemporaryFolder folder;
  Store from(folder.path() / "from");
  const std::vector<StoredModel> models{add_model(from, folder, std::string(100, 'm'))};
  save_archive(from, models, folder.path() / "x.tar");
  const std::string archive = test::content_of(folder.path() / "x.tar");
  std::size_t refused = 0;
  for (std::size_t at = 0; at < archive.size(); at += 97) {
    std::string bent = archive;
    bent[at] = static_cast<char>(bent[at] ^ 1);
    folder.write("bent.tar", bent);
    Store to(folder.path() / "to");
    try {
      (void)load_archive(to, folder.path() / "bent.tar", {});
    } catch (const Error&) {
      ++refused;
      EXPECT_TRUE(to.list().empty()) << at;
    }
    for (const StoredModel& model : to.list()) EXPECT_TRUE(to.verify(model).empty()) << at;
    std::filesystem::remove_all(folder.path() / "to");
  }
  EXPECT_GT(refused, 10U);
}

TEST(Archive, AStoredFileThatChangedIsNotSaved) {
  const test::TemporaryFolder folder;
  Store store(folder.path() / "store");
  const std::vector<StoredModel> models{add_model(store, folder, "content")};
  const std::filesystem::path blob = store.blobs().path_of(models[0].package.files[0].blob.digest);
  std::filesystem::permissions(blob, std::filesystem::perms(0644));
  std::ofstream(blob) << "changed";
  EXPECT_THROW(save_archive(store, models, folder.path() / "x.tar"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.tar"));
}

}  // namespace
}  // namespace gpux::oci
