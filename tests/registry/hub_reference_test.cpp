#include "registry/hub/hub_reference.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::registry {
namespace {

TEST(HubReference, IsReadInAllItsSpellings) {
  struct Row {
    std::string text, repository, revision, file, stored;
  };

  for (const Row& row : std::vector<Row>{
           {"hf.co/Org/Name", "Org/Name", "", "", "hf.co/org/name:latest"},
           {"hf:Org/Name@v1.0", "Org/Name", "v1.0", "", "hf.co/org/name:v1.0"},
           {"HF.CO/org/name", "org/name", "", "", "hf.co/org/name:latest"},
           {"huggingface.co/org/name@refs/pr/1", "org/name", "refs/pr/1", "", "hf.co/org/name:refs-pr-1"},
           {"hf:gpt2:a/b", "gpt2", "a/b", "", "hf.co/gpt2:a-b"},
           {"https://huggingface.co/org/name", "org/name", "", "", "hf.co/org/name:latest"},
           {"https://huggingface.co/org/name/tree/main", "org/name", "main", "", "hf.co/org/name:main"},
           {"https://hf.co/org/name/blob/v2/onnx/model.onnx?download=true", "org/name", "v2", "onnx/model.onnx",
            "hf.co/org/name:v2"},
           {"hf.co/org/name:latest", "org/name", "", "", "hf.co/org/name:latest"},
           {"hf.co/org/name:v1.0", "org/name", "v1.0", "", "hf.co/org/name:v1.0"},
           {"hf.co/gpt2", "gpt2", "", "", "hf.co/gpt2:latest"},
           {"hf.co/org/a_-b__", "org/a_-b__", "", "", "hf.co/org/a-b:latest"},
       }) {
    ASSERT_TRUE(is_hub_reference(row.text)) << row.text;
    const HubReference reference = parse_hub_reference(row.text);
    EXPECT_EQ(reference.repository, row.repository) << row.text;
    EXPECT_EQ(reference.revision, row.revision) << row.text;
    EXPECT_EQ(reference.file, row.file) << row.text;
    const std::string stored = stored_name_of(reference).text();
    EXPECT_EQ(stored, row.stored) << row.text;
    EXPECT_EQ(parse_reference(stored).text(), stored);
  }
  EXPECT_EQ(parse_hub_reference("org/name", true).repository, "org/name");
}

TEST(HubReference, RefusesOthers) {
  for (const char* text :
       {"org/name", "name", "hf.co/", "hf.co/org/", "hf.co/org/na me", "hf.co/../x", "hf.co/org/name@",
        "hf.co/org/name@a b", "hf.co/org/name@../x", "hf.co/org/name/other", "hf.co/org/name/tree/a/b",
        "hf.co/org/name/blob", "hf.co/.org/name", "hf.co/org/name:a@b", "hf.co/org/na%2f"}) {
    EXPECT_THROW(parse_hub_reference(text), Error) << text;
  }
  EXPECT_THROW(parse_hub_reference("name", true), Error);
  EXPECT_FALSE(is_hub_reference("org/name"));
  EXPECT_FALSE(is_hub_reference("hf.com/org/name"));
}

}  // namespace
}  // namespace gpux::registry
