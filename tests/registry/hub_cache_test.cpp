#include "registry/hub/hub_cache.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string commit(40, 'a');

/// A cache as huggingface_hub lays it out.
class HubCache : public ::testing::Test {
 protected:
  HubCache() { write_file_atomically(model_ / "refs/main", commit); }

  // `id` is the name of the blob.
  void add(const std::string& name, const std::string& content, const std::string& id) {
    write_file_atomically(model_ / "blobs" / id, content);
    const fs::path link = model_ / "snapshots" / commit / name;
    fs::create_directories(link.parent_path());
    fs::create_symlink(model_ / "blobs" / id, link);
  }

  void add_absent(const std::string& name) {
    write_file_atomically(model_ / ".no_exist" / commit / name, std::string_view());
  }

  [[nodiscard]] std::string refusal(const std::string& revision = {}) const {
    try {
      (void)find_cached_model(scratch_.path(), "org/name", revision);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      return error.message();
    }
  }

  ScratchFolder scratch_;
  fs::path model_ = scratch_.path() / "models--org--name";
};

TEST_F(HubCache, ListsTheFilesOfARevision) {
  add("config.json", "{}", std::string(40, 'c'));
  add("onnx/model.onnx", "onnx", std::string(64, 'd'));
  add("other.txt", "x", "no-digest");
  add_absent("modules.json");
  for (const std::string& revision : {std::string(), std::string("main"), commit}) {
    const auto info = find_cached_model(scratch_.path(), "org/name", revision);
    ASSERT_TRUE(info) << revision;
    EXPECT_EQ(info->commit, commit);
    ASSERT_EQ(info->files.size(), 2U);
    EXPECT_EQ(info->files[0].name, "config.json");
    EXPECT_EQ(info->files[0].git_blob_id, std::string(40, 'c'));
    EXPECT_EQ(info->files[1].name, "onnx/model.onnx");
    EXPECT_EQ(info->files[1].sha256, std::string(64, 'd'));
    EXPECT_EQ(info->files[1].bytes, 4U);
    EXPECT_EQ(find_in_cache(scratch_.path(), *info, info->files[1]), model_ / "blobs" / std::string(64, 'd'));
    EXPECT_THAT(problem_of(info->files[1], model_ / "blobs" / std::string(64, 'd')), HasSubstr("its SHA-256 is"));
  }
  EXPECT_FALSE(find_cached_model(scratch_.path(), "org/name", "v2"));
  EXPECT_FALSE(find_cached_model(scratch_.path(), "org/name", "../main"));
  EXPECT_FALSE(find_cached_model(scratch_.path(), "org/other", ""));
}

// As huggingface_hub lays it out where the file system has no links: the content tells no digest.
TEST_F(HubCache, ReadsCopiesInPlaceOfLinks) {
  const fs::path snapshot = model_ / "snapshots" / commit;
  write_file_atomically(snapshot / "config.json", std::string_view("{}"));
  write_file_atomically(snapshot / ".gitattributes", std::string_view("x"));
  const auto info = find_cached_model(scratch_.path(), "org/name", "");
  ASSERT_TRUE(info);
  ASSERT_EQ(info->files.size(), 2U);
  const HubFile& config = info->files[1];
  EXPECT_EQ(config.name, "config.json");
  EXPECT_EQ(config.bytes, 2U);
  EXPECT_EQ(config.content_id(), "");
  EXPECT_EQ(find_in_cache(scratch_.path(), *info, config), snapshot / "config.json");
  // Of a file whose digest the hub lists, too; its content is checked by who takes it.
  HubFile listed = config;
  listed.sha256 = std::string(64, 'd');
  EXPECT_EQ(find_in_cache(scratch_.path(), *info, listed), snapshot / "config.json");
  listed.bytes = 3;
  EXPECT_FALSE(find_in_cache(scratch_.path(), *info, listed));
}

// Without modules.json the same weights would be pooled in another way.
TEST_F(HubCache, RefusesWhatMayBeAPart) {
  add("config.json", "{}", std::string(40, 'c'));
  EXPECT_THAT(refusal(), HasSubstr("it does not have modules.json"));
  add_absent("modules.json");
  EXPECT_EQ(refusal(), "");
  add("modules.json", "[]", std::string(40, 'e'));
  EXPECT_THAT(refusal(), HasSubstr("config_sentence_transformers.json"));
  add_absent("config_sentence_transformers.json");
  EXPECT_THAT(refusal(), HasSubstr("sentence_bert_config.json"));
  // A complete download.
  add(".gitattributes", "", std::string(40, 'f'));
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace gpux::registry
