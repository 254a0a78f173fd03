// What is said of a folder of this process, as the user knows it.
#include "library/other_folder.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/temporary_folder.h"

namespace gpux {
namespace {

TEST(OtherFolder, NamesFilesAsTheUserKnowsThem) {
  const auto known = [](const Message& message, const char* folder = "/tmp/x/model") {
    return in_other_folder(Error(ErrorCode::invalid_model, message), folder, "hf.co/org/name").message();
  };
  EXPECT_EQ(known({file_at("/tmp/x/model/config.json"), ": no"}), "hf.co/org/name/config.json: no");
  EXPECT_EQ(known({"'", file_at("/tmp/x/model"), "' is empty"}), "'hf.co/org/name' is empty");
  // Others keep their names, relative ones too.
  EXPECT_EQ(known({file_at("/tmp/x/models/config.json")}), "/tmp/x/models/config.json");
  EXPECT_EQ(known({file_at("/etc/a")}), "/etc/a");
  EXPECT_EQ(known({file_at("out")}), "out");
  EXPECT_EQ(known({file_at("/etc/a")}, "model"), "/etc/a");
  EXPECT_EQ(known({file_at("model/a")}, "model"), "hf.co/org/name/a");
  EXPECT_EQ(known({"all of ", file_at("a")}, ""), "all of a");
  // The words of other programs.
  EXPECT_EQ(known({"Load model from /tmp/x/model/model.onnx failed"}),
            "Load model from hf.co/org/name/model.onnx failed");
}

TEST(OtherFolder, KeepsWhatElseIsNamed) {
  const Error error(ErrorCode::usage, Message{file_at("/tmp/x/a"), " needs ", setting_named("reranker")});
  const Error known = in_other_folder(error, "/tmp/x", "digits");
  EXPECT_EQ(known.code(), ErrorCode::usage);
  EXPECT_EQ(known.message([](const Subject& subject) { return "<" + subject.name + ">"; }),
            "<digits/a> needs <reranker>");
}

TEST(OtherFolder, NamesTheSourceOfWhatWasMade) {
  const test::TemporaryFolder folder;
  const std::filesystem::path source = folder.path() / "minilm";
  std::filesystem::create_directory(source);
  write_file_atomically(source / "tokenizer.json", "{}");
  const auto known = [&](const Message& message) {
    return in_source_of(Error(ErrorCode::invalid_model, message), "/tmp/x/model", source).message();
  };
  EXPECT_EQ(known({file_at("/tmp/x/model/tokenizer.json"), ": no"}), (source / "tokenizer.json").string() + ": no");
  EXPECT_EQ(known({"'", file_at("/tmp/x/model/model.onnx"), "' cannot be loaded: Load model from ",
                   "/tmp/x/model/model.onnx failed: '/tmp/x/model/tokenizer.json': no"}),
            "'" + source.string() + "' cannot be loaded: Load model from " + source.string() + " failed: '" +
                (source / "tokenizer.json").string() + "': no");
  EXPECT_EQ(known({file_at("/tmp/x/other")}), "/tmp/x/other");
}

}  // namespace
}  // namespace gpux
