#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::registry {

/// Roles of a repository's files that its index files declare.
struct RepositoryLayout {
  std::set<std::string, std::less<>> module_folders;  ///< those that modules.json names, besides the repository's own
  std::set<std::string, std::less<>> weight_parts;    ///< the files that model.safetensors.index.json names
};

/// Which files of a repository are wanted.
struct FileRequest {
  std::string file;       ///< the ONNX file that is the model; empty: the one that is found
  std::string precision;  ///< "fp32", "fp16", "int8": the ONNX file with these weights; empty: fp32
  bool is_x86 = true;
  bool adds_bytes_exactly = true;  ///< as of adds_byte_products_exactly()
  std::string quantization;        ///< "Q4_K_M": the GGUF file with these weights; empty: no GGUF file is asked for
  RepositoryLayout layout;
};

struct FileChoice {
  std::string model_file;          ///< the ONNX file that runs; empty: safetensors or GGUF, which are converted
  std::string gguf_file;           ///< the GGUF file, or the first of its parts; empty: another kind of weights
  std::vector<std::string> files;  ///< all that are to be downloaded, sorted
  /// The files that have weights: the ONNX file with its external data, and safetensors. Sorted.
  std::vector<std::string> weights;
  /// Files of heads that the model has and gpux does not read, since they are pickled: it is stored without them.
  std::vector<std::string> left_out;
};

/// The ONNX or GGUF file that is the model; empty: safetensors. `request.layout` is not looked at: the weights may be
/// in any folder. Pure. Errors as choose_files().
std::string find_model_file(std::span<const std::string> names, const FileRequest& request,
                            std::string_view repository);

/// Reads the files that the choice depends on: modules.json, and where safetensors are the model the indexes of those
/// in parts. `read` gives the text of a file among `names`. Errors of `read`, invalid_model (their content), and those
/// of choose_files() that no content changes.
RepositoryLayout read_layout(std::span<const std::string> names, const FileRequest& request,
                             std::string_view repository, const std::function<std::string(const std::string&)>& read);

/// Chooses among all files of a repository. The model is text_model.onnx and vision_model.onnx where both are there;
/// else model.onnx or onnx/model.onnx with its external data; without them model.safetensors or the parts that its
/// index names, with the heads sparse_linear.safetensors and colbert_linear.safetensors; without these the only ONNX
/// file; without one a GGUF file: the one in the requested quantization, or Q4_K_M, or the only one. With it come the
/// tokenizer, the settings, the chat template, and the folders that modules.json names; a GGUF file has all that in
/// itself. Never chosen are files of other frameworks. `repository` is for messages. Pure. Errors: not_found where the
/// requested file, precision or quantization is missing, or a part of the weights; usage where several files may be
/// the model, and for two requests at once; invalid_model where there is nothing that gpux reads: pickled weights or no
/// weights.
FileChoice choose_files(std::span<const std::string> names, const FileRequest& request, std::string_view repository);

/// What else of the repository can be chosen in place of `model_file`, which choose_files() chose (empty: safetensors):
/// "fp16", "int8" for `precision`, "Q8_0" for `quantization`. Pure.
struct OtherWeights {
  std::vector<std::string> precisions, quantizations;
};

OtherWeights other_weights(std::span<const std::string> names, const FileRequest& request,
                           const std::string& model_file);

}  // namespace gpux::registry
