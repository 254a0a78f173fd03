#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::registry {

/// Which files of a repository are wanted.
struct FileRequest {
  std::string file;       ///< the ONNX file that is the model; empty: the one that is found
  std::string precision;  ///< "fp32", "fp16", "int8": the ONNX file with these weights; empty: fp32
  bool is_x86 = true;
  bool adds_bytes_exactly = true;  ///< as of adds_byte_products_exactly()
};

struct FileChoice {
  std::string model_file;          ///< the ONNX file that runs; empty: safetensors, which are converted
  std::vector<std::string> files;  ///< all that are to be downloaded, sorted
  /// Those of the files that have weights: the ONNX file with its external data, and safetensors. Sorted.
  std::vector<std::string> weights;
  /// Files of heads that the model has and gpux does not read, since they are pickled: it is stored without them.
  std::vector<std::string> left_out;
};

/// Chooses among all files of a repository. The model is text_model.onnx and vision_model.onnx where both are there;
/// else model.onnx or onnx/model.onnx with its external data; without them model.safetensors or its parts, with the
/// heads sparse_linear.safetensors and colbert_linear.safetensors; without these the only ONNX file. With it come the
/// tokenizer, the settings, the chat template, and the folders of sentence-transformers' modules. Never chosen are
/// files of other frameworks. `repository` is for messages. Pure. Errors: not_found where the requested file or
/// precision is missing; usage where several ONNX files may be the model, and for both requests at once; invalid_model
/// where there is nothing that gpux reads: pickled weights, GGUF or no weights.
FileChoice choose_files(std::span<const std::string> names, const FileRequest& request, std::string_view repository);

}  // namespace gpux::registry
