#include "evaluation/data_sets.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "gpux/error.h"
#include "onnx/tensor_file.h"

namespace gpux::evaluation {
namespace {

// KIND_0.pb, KIND_1.pb, … until one is missing.
std::vector<std::filesystem::path> numbered_files(const std::filesystem::path& folder, const char* kind) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (;;) {
    std::filesystem::path file = folder / fmt::format("{}_{}.pb", kind, files.size());
    if (!std::filesystem::exists(file, error)) return files;
    files.push_back(std::move(file));
  }
}

NamedValues read_values(const std::vector<std::filesystem::path>& files,
                        const std::vector<const SignatureEntry*>& entries) {
  NamedValues values;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i >= entries.size()) {
      throw Error(ErrorCode::invalid_input,
                  format_message("'{}': the model has only {} of these", file_at(files[i]), entries.size()));
    }
    values.emplace_back(entries[i]->name, onnx::read_value_file(files[i], entries[i]->type));
  }
  return values;
}

std::vector<const SignatureEntry*> pointers(const std::vector<SignatureEntry>& entries, bool required_only) {
  std::vector<const SignatureEntry*> chosen;
  for (const SignatureEntry& entry : entries) {
    if (entry.required || !required_only) chosen.push_back(&entry);
  }
  return chosen;
}

DataSet read_data_set(const std::filesystem::path& folder, const Signature& signature) {
  DataSet set;
  set.name = folder.filename().string();
  const auto inputs = numbered_files(folder, "input");
  const auto required = pointers(signature.inputs, true);
  // Files of older models leave out the initializers that are listed as inputs.
  set.inputs = read_values(inputs, inputs.size() == required.size() ? required : pointers(signature.inputs, false));
  set.outputs = read_values(numbered_files(folder, "output"), pointers(signature.outputs, false));
  return set;
}

}  // namespace

std::vector<DataSet> recorded_data_sets(const std::filesystem::path& folder, const Signature& signature) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  const std::filesystem::path place = folder.empty() ? "." : folder;  // of a file that is named without one
  for (const auto& entry : std::filesystem::directory_iterator(place, error)) {
    if (entry.path().filename().string().starts_with("test_data_set_") && entry.is_directory(error)) {
      folders.push_back(entry.path());
    }
  }
  if (error) throw_file_error("read", folder, error.value());
  std::sort(folders.begin(), folders.end());
  std::vector<DataSet> sets;
  for (const std::filesystem::path& set : folders) sets.push_back(read_data_set(set, signature));
  return sets;
}

}  // namespace gpux::evaluation
