#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace gpux::test {

/// A folder as sentence-transformers makes them, of the encoder that make_encoder.py writes: `poolings` is
/// 1_Pooling/config.json, and modules.json has a Normalize where `normalize` says so. Two prompts, none by default.
inline std::filesystem::path write_encoder_folder(const TemporaryFolder& folder, const std::string& pooling,
                                                  bool normalize, const std::string& encoder = "encoder.onnx") {
  const std::filesystem::path tests = GPUX_SOURCE_DIR "/tests";
  const std::string type = R"({"type": "sentence_transformers.models.)";
  folder.write("encoder/modules.json",
               "[" + type + R"(Transformer", "path": ""}, )" + type + R"(Pooling", "path": "1_Pooling"})" +
                   (normalize ? ", " + type + R"(Normalize", "path": "2_Normalize"})" : "") + "]");
  folder.write("encoder/1_Pooling/config.json", pooling);
  folder.write("encoder/sentence_bert_config.json", R"({"max_seq_length": 32, "do_lower_case": false})");
  folder.write("encoder/config_sentence_transformers.json",
               R"({"prompts": {"query": "the question: ", "document": ""}, "default_prompt_name": null})");
  folder.write("encoder/tokenizer.json", read_file(tests / "text/data/wordpiece.json"));
  folder.write("encoder/onnx/model.onnx", read_file(tests / "embedding" / encoder));
  return folder.path() / "encoder";
}

}  // namespace gpux::test
