#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"

namespace gpux::cli {

/// Vectors of one length, written as they come: as JSON lines to standard output, or to FILE.{jsonl,npy,f32}, which
/// takes its place as a whole or not at all. .npy is float32 [vectors, dimension], .f32 the same numbers alone.
class VectorWriter {
 public:
  /// What stands in each JSON line before its vector.
  struct Source {
    std::string model;      ///< name
    std::string digest;     ///< SHA-256 of the ONNX file, in hexadecimal digits
    std::size_t dimension;  ///< elements of a vector
  };

  /// An empty `file` is standard output.
  VectorWriter(const std::filesystem::path& file, const Source& source);

  /// Error storage.
  void add(std::span<const float> vector);
  /// The file takes its place. Error storage.
  void finish();

  /// Error usage where a file of that name cannot be written.
  static void check_name(const std::filesystem::path& file);

 private:
  enum class Form : std::uint8_t { json_lines, npy, numbers };
  static std::optional<Form> form_of(const std::filesystem::path& file);
  [[nodiscard]] std::string npy_header() const;

  Form form_ = Form::json_lines;
  std::string beginning_;  // of each JSON line
  std::size_t dimension_;
  std::uint64_t vectors_ = 0;
  std::optional<FileReplacement> file_;
};

}  // namespace gpux::cli
