#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "embedding/vector_encoding.h"

namespace gpux::embedding {

/// Destination and format of vectors that are written.
struct VectorTarget {
  enum class Form : std::uint8_t {
    lines,       ///< JSON lines on standard output
    line_file,   ///< FILE.jsonl
    array_file,  ///< FILE.npy: [vectors, elements]
    numbers,     ///< FILE.f32: float32, little endian, and nothing else
    document,    ///< FILE.vec: one JSON object {"hash", "vector", "metadata"} of one text
    folder,      ///< DIR/: such a file for each text, named by its hash
  };

  Form form = Form::lines;
  std::filesystem::path path;
  VectorEncoding encoding = VectorEncoding::float32;
  bool resume = false;
};

/// The output file or folder of --output, --encoding and --resume; `output` is empty for standard output, and ends in
/// "/" or is a folder for Form::folder. Error usage that names the flags that do not go together.
VectorTarget vector_target(const std::string& output, const std::string& encoding, bool resume);

/// Model and settings that made the vectors; stored with them.
struct VectorSource {
  std::string model;           ///< name
  std::string level;           ///< "low"; empty: none was requested
  std::string digest;          ///< SHA-256 of the ONNX file, in hexadecimal digits
  std::size_t dimension;       ///< dimension of a vector before it is encoded
  bool are_images = false;     ///< JSON lines say which image each vector is of
  nlohmann::ordered_json run;  ///< all other settings that the vectors depend on: --resume requires the same ones
};

/// Prints a line on standard output; what it throws add() throws.
using LinePrinter = std::function<void(std::string_view line)>;

/// Vectors of one length, written as they come. A file of many is written as FILE.part, beside FILE.part.json, which
/// says what it was begun with, and takes its place as a whole; what is not finished stays, to be resumed.
class VectorWriter {
 public:
  /// Errors storage; invalid_input where what is to be resumed was begun otherwise.
  VectorWriter(VectorTarget target, VectorSource source, LinePrinter print);
  ~VectorWriter();
  VectorWriter(const VectorWriter&) = delete;
  VectorWriter& operator=(const VectorWriter&) = delete;

  /// Vectors that are there from before: add() goes on behind them.
  [[nodiscard]] std::uint64_t kept() const noexcept { return kept_; }

  /// Errors storage; usage where a second vector is to go into a .vec; as of encode().
  void add(std::string_view text, std::span<const float> vector);
  /// The file takes its place. Error storage; invalid_input where a .vec has got no vector.
  void finish();

 private:
  [[nodiscard]] bool is_partial() const noexcept;
  [[nodiscard]] std::filesystem::path run_file() const;
  [[nodiscard]] nlohmann::ordered_json run() const;
  [[nodiscard]] std::size_t bytes_per_vector() const;
  [[nodiscard]] std::string array_header() const;
  void begin(FileReplacement& file) const;
  void keep_complete_vectors(FileReplacement& file);
  void require_same_run(const FileReplacement& file) const;
  void append_fields(std::string& out, const EncodedVector& encoded) const;
  void append_vector(std::string& out, const EncodedVector& encoded) const;
  void add_document(std::string_view text, const EncodedVector& encoded);

  VectorTarget target_;
  VectorSource source_;
  std::uint64_t kept_ = 0, vectors_ = 0;
  LinePrinter print_;
  std::optional<FileReplacement> file_;
  std::string document_;  // until it is known to be the only one
};

}  // namespace gpux::embedding
