#include "model/output_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "onnx/tensor_file.h"
#include "pipeline/json_items.h"
#include "tensor/npy.h"
#include "tensor/npz.h"

namespace gpux {
namespace {

std::string extension_of(const std::filesystem::path& file) {
  return lower(file.extension().string());
}

void check_single(const std::filesystem::path& file, std::size_t outputs) {
  if (outputs == 1) return;
  throw Error(ErrorCode::invalid_input,
              format_message("'{}' holds one output, and there are {}: use .npz or .json", file_at(file), outputs));
}

[[noreturn]] void refuse_list(const std::filesystem::path& file) {
  throw Error(ErrorCode::invalid_input,
              format_message("'{}' holds one result, and there is a list: use .json", file_at(file)));
}

[[noreturn]] void refuse_kind(const std::filesystem::path& file, const std::string& output) {
  const bool tensors_only = extension_of(file) != ".pb";
  throw Error(ErrorCode::invalid_input,
              format_message("'{}' holds {}, and output '{}' is none: use .json{}", file_at(file),
                             tensors_only ? "tensors only" : "a tensor, sequence or optional", output,
                             tensors_only ? " or .pb" : ""));
}

const NamedValue& only_output(const std::filesystem::path& file, const NamedValues& result) {
  check_single(file, result.size());
  return result.front();
}

const Tensor& tensor_of(const std::filesystem::path& file, const NamedValue& output) {
  const Tensor* tensor = output.second.tensor();
  if (tensor == nullptr) refuse_kind(file, output.first);
  return *tensor;
}

bool is_optional(const std::vector<SignatureEntry>& outputs, std::string_view name) {
  return std::any_of(outputs.begin(), outputs.end(), [&](const SignatureEntry& entry) {
    return entry.name == name && entry.type.kind == ValueKind::optional;
  });
}

}  // namespace

void check_output_name(const std::filesystem::path& file) {
  const std::string extension = extension_of(file);
  for (const char* known : {".json", ".npz", ".npy", ".pb"}) {
    if (extension == known) return;
  }
  throw Error(ErrorCode::usage,
              format_message("{} '{}': accepted: .json, .npz, .npy, .pb", setting_named("output"), file_at(file)));
}

void check_output_fits(const std::filesystem::path& file, const std::vector<SignatureEntry>& outputs, bool is_list) {
  const std::string extension = extension_of(file);
  if (extension == ".json") return;
  if (is_list) refuse_list(file);
  if (extension != ".npz") check_single(file, outputs.size());
  for (const SignatureEntry& entry : outputs) {
    const ValueKind kind = entry.type.kind;
    if (kind == ValueKind::map || (kind == ValueKind::sequence && extension != ".pb")) refuse_kind(file, entry.name);
    if (kind == ValueKind::sequence && !entry.type.inner.empty() && entry.type.inner.front().kind == ValueKind::map) {
      refuse_kind(file, entry.name);
    }
  }
}

void write_results(const std::filesystem::path& file, const std::vector<NamedValues>& results, bool is_list,
                   const std::vector<SignatureEntry>& outputs, std::span<const DeclaredValue> declared,
                   NonFinite nonfinite) {
  const std::string extension = extension_of(file);
  std::string content;
  if (extension == ".json") {
    content = pipeline::results_json(results, is_list, declared, nonfinite) + "\n";
  } else if (is_list) {
    refuse_list(file);
  } else if (extension == ".npz") {
    std::vector<NamedTensor> tensors;
    for (const NamedValue& output : results.front()) tensors.emplace_back(output.first, tensor_of(file, output));
    content = write_npz(tensors);
  } else if (extension == ".npy") {
    append_npy(content, tensor_of(file, only_output(file, results.front())));
  } else {
    const NamedValue& output = only_output(file, results.front());
    content = is_optional(outputs, output.first) ? onnx::write_optional(output.second, output.first)
                                                 : onnx::write_value(output.second, output.first);
  }
  write_file_atomically(file, content);
}

}  // namespace gpux
