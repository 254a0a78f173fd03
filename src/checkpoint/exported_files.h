#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpux/error.h"

namespace gpux {

/// A file with the same model in another precision.
struct ExportedVariant {
  std::string file;          ///< as it was given
  std::string precision;     ///< "int8", "fp16"
  unsigned weight_bits = 8;  ///< as VariantPrecision::weight_bits
};

/// The ONNX files in `folder` and in its `onnx`, relative to it, sorted. Unreadable folders have none.
std::vector<std::string> exported_files_in(const std::filesystem::path& folder);

struct LeftOutFile {
  std::string file;
  Message reason;
};

struct ExportedFiles {
  std::vector<ExportedVariant> variants;  ///< for each precision, the one that fits the processor best comes first
  std::vector<LeftOutFile> left_out;
};

/// The purpose of the files next to model.onnx, by the names that Optimum, sentence-transformers and transformers.js
/// give them (model_fp16, model_quantized, model_qint8_avx512_vnni, model_q4, model_O2 …). `adds_bytes_exactly` as of
/// adds_byte_products_exactly(): files with 8-bit weights are omitted if it is false. Pure.
ExportedFiles sort_exported_files(std::span<const std::string> files, bool is_x86, bool adds_bytes_exactly);

}  // namespace gpux
