#include "registry/hub/hub_reference.h"

#include <map>
#include <string>
#include <vector>

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
           {"huggingface.co/org/name@refs/pr/1", "org/name", "refs/pr/1", "", "hf.co/org/name:refs-pr-1-5ca79c0c"},
           {"hf:gpt2:a/b", "gpt2", "a/b", "", "hf.co/gpt2:a-b-241714c6"},
           {"hf:gpt2@a-b", "gpt2", "a-b", "", "hf.co/gpt2:a-b"},
           {"hf:gpt2@latest", "gpt2", "latest", "", "hf.co/gpt2:latest-715760ee"},
           {"https://huggingface.co/org/name", "org/name", "", "", "hf.co/org/name:latest"},
           {"https://huggingface.co/org/name/tree/main", "org/name", "main", "", "hf.co/org/name:main"},
           {"https://hf.co/org/name/blob/v2/onnx/model.onnx?download=true", "org/name", "v2", "onnx/model.onnx",
            "hf.co/org/name:v2-a2160504"},
           {"hf.co/org/name:latest", "org/name", "", "", "hf.co/org/name:latest"},
           {"hf.co/org/name:v1.0", "org/name", "v1.0", "", "hf.co/org/name:v1.0"},
           {"hf.co/gpt2", "gpt2", "", "", "hf.co/gpt2:latest"},
           {"hf.co/org/a_-b__", "org/a_-b__", "", "", "hf.co/org/a-b-b6cc6626:latest"},
           {"hf.co/org/a-b", "org/a-b", "", "", "hf.co/org/a-b:latest"},
           {"hf.co/org/name:x-Q4_K_M.gguf", "org/name", "", "x-Q4_K_M.gguf", "hf.co/org/name:latest-16f53f1c"},
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

TEST(HubReference, NamesAQuantizationAsOllamaDoes) {
  for (const char* text : {"Q4_K_M", "q8_0", "IQ2_XS", "iq4_nl", "TQ1_0", "UD-Q4_K_XL", "F16", "bf16", "MXFP4"}) {
    EXPECT_TRUE(names_quantization(text)) << text;
    const HubReference reference = parse_hub_reference(std::string("hf.co/Org/X-GGUF:") + text);
    EXPECT_EQ(reference.quantization, text);
    EXPECT_EQ(reference.revision, "");
    EXPECT_EQ(reference.text(), std::string("hf.co/Org/X-GGUF:") + text);
    EXPECT_EQ(stored_name_of(reference).text(), std::string("hf.co/org/x-gguf:") + text);
    // A branch of that name is another model.
    const HubReference branch = parse_hub_reference(std::string("hf.co/Org/X-GGUF@") + text);
    EXPECT_EQ(branch.revision, text);
    EXPECT_NE(stored_name_of(branch), stored_name_of(reference));
  }
  for (const char* text : {"", "v1.0", "Q4", "Q9_0", "Q4_", "Q4_K.M", "fp16", "main", "quant", "1Q4_K"}) {
    EXPECT_FALSE(names_quantization(text)) << text;
  }
}

// Each reference has a name of its own, so that none is answered with the files of another.
TEST(HubReference, StoresDifferentReferencesUnderDifferentNames) {
  const std::string longest(200, 'a');
  std::vector<std::string> texts{"hf:o/m",    "hf:o/m@latest", "hf:o/m@a/b",    "hf:o/m@a-b",   "hf:o/m@a+b",
                                 "hf:o/m@.a", "hf:o/m@_a",     "hf:o/m_-x",     "hf:o/m-x",     "hf:o/m.-x",
                                 "hf:o/m_",   "hf:o/m:Q4_K_M", "hf:o/m@Q4_K_M", "hf:o/m:a.gguf"};
  for (const char* end : {"x", "y"}) texts.push_back("hf:o/m@" + longest + end);
  for (const char* file : {"a.onnx", "b.onnx"}) texts.push_back(std::string("https://hf.co/o/m/blob/a-b/") + file);
  std::map<std::string, std::string> names;
  for (const std::string& text : texts) {
    const std::string name = stored_name_of(parse_hub_reference(text)).text();
    EXPECT_EQ(parse_reference(name).text(), name);
    const auto [known, is_new] = names.emplace(name, text);
    EXPECT_TRUE(is_new) << text << " and " << known->second << " are " << name;
  }
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
