#include "cli/vectors.h"

#include <fmt/format.h>

#include "base/spelling.h"
#include "cli/command.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "tensor/json_writer.h"
#include "tensor/npy.h"

namespace gpux::cli {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::optional<VectorWriter::Form> VectorWriter::form_of(const std::filesystem::path& file) {
  const std::string extension = lower(file.extension().string());
  if (extension == ".jsonl") return Form::json_lines;
  if (extension == ".npy") return Form::npy;
  if (extension == ".f32") return Form::numbers;
  return std::nullopt;
}

void VectorWriter::check_name(const std::filesystem::path& file) {
  if (form_of(file)) return;
  throw Error(ErrorCode::usage, fmt::format("--output '{}': accepted: .jsonl, .npy, .f32", file.string()));
}

VectorWriter::VectorWriter(const std::filesystem::path& file, const Source& source) : dimension_(source.dimension) {
  beginning_ = R"({"model": )";
  append_json_string(beginning_, source.model);
  beginning_ += fmt::format(R"(, "digest": "sha256:{}", "dimension": {}, "level": null, "vector": )", source.digest,
                            source.dimension);
  if (file.empty()) return;
  form_ = form_of(file).value_or(Form::json_lines);
  file_.emplace(file);
  if (form_ == Form::npy) file_->append(bytes_of(npy_header()));
}

// As long for every number of vectors: NumPy's headers are padded, and two sizes fit into the first padding.
std::string VectorWriter::npy_header() const {
  std::string header;
  append_npy_header(header, ElementType::float32,
                    {static_cast<std::int64_t>(vectors_), static_cast<std::int64_t>(dimension_)});
  return header;
}

void VectorWriter::add(std::span<const float> vector) {
  ++vectors_;
  if (form_ != Form::json_lines) return file_->append(std::as_bytes(vector));
  std::string line = beginning_;
  append_json(line,
              Tensor::borrow(ElementType::float32, {static_cast<std::int64_t>(vector.size())}, std::as_bytes(vector)));
  line += '}';
  if (!file_) return print_data(line);
  line += '\n';
  file_->append(bytes_of(line));
}

void VectorWriter::finish() {
  if (!file_) return;
  if (form_ == Form::npy) file_->rewrite_beginning(bytes_of(npy_header()));
  file_->commit();
}

}  // namespace gpux::cli
