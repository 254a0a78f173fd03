#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace gpux::test {

inline std::filesystem::path representation_data(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/embedding/representations" / name;
}

/// A folder with a model of make_representations.py, without modules.json.
inline std::filesystem::path write_representation_folder(const TemporaryFolder& folder, const std::string& model,
                                                         const std::string& config = "{}") {
  folder.write(model + "/tokenizer.json", read_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json"));
  folder.write(model + "/tokenizer_config.json", R"({"mask_token": "[MASK]"})");
  folder.write(model + "/sentence_bert_config.json", R"({"max_seq_length": 32})");
  folder.write(model + "/config.json", config);
  folder.write(model + "/model.onnx", read_file(representation_data(model + ".onnx")));
  return folder.path() / model;
}

/// The same as sentence-transformers' SparseEncoder saves it; `pooling` is config.json of its SpladePooling.
inline std::filesystem::path write_splade_folder(const TemporaryFolder& folder, const std::string& model,
                                                 const std::string& pooling) {
  const std::filesystem::path made = write_representation_folder(folder, model);
  folder.write(model + "/modules.json",
               R"([{"type": "sentence_transformers.sparse_encoder.models.MLMTransformer", "path": ""},)"
               R"({"type": "sentence_transformers.sparse_encoder.models.SpladePooling", "path": "1_SpladePooling"}])");
  folder.write(model + "/1_SpladePooling/config.json", pooling);
  return made;
}

/// A ColBERT model as PyLate saves it.
inline std::filesystem::path write_colbert_folder(const TemporaryFolder& folder) {
  const std::filesystem::path made = write_representation_folder(folder, "hidden");
  folder.write("hidden/modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},)"
                                      R"({"type": "pylate.models.Dense.Dense", "path": "1_Dense"}])");
  folder.write("hidden/1_Dense/config.json", R"({"in_features": 8, "out_features": 6, "bias": false,)"
                                             R"("activation_function": "torch.nn.modules.linear.Identity"})");
  folder.write("hidden/1_Dense/model.safetensors", read_file(representation_data("dense.safetensors")));
  folder.write("hidden/config_sentence_transformers.json",
               R"({"model_type": "ColBERT", "query_prefix": "#", "document_prefix": "$", "query_length": 12,)"
               R"("document_length": 20, "attend_to_expansion_tokens": false, "do_query_expansion": true})");
  return made;
}

}  // namespace gpux::test
