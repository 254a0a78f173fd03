#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "project/project_file.h"
#include "tensor/json_writer.h"

namespace gpux {

/// Error usage where a file of that name cannot be written: known are .json, .npz, .npy, .pb.
void check_output_name(const std::filesystem::path& file);

/// Error invalid_input where results of such outputs cannot go to a file of that name, as far as it can be known before
/// there are results.
void check_output_fits(const std::filesystem::path& file, const std::vector<SignatureEntry>& outputs, bool is_list);

/// Writes results of a model with these outputs to FILE.{json,npz,npy,pb}, as a whole or not at all.
/// Error invalid_input where the results do not fit the format, storage.
void write_results(const std::filesystem::path& file, const std::vector<NamedValues>& results, bool is_list,
                   const std::vector<SignatureEntry>& outputs, std::span<const DeclaredValue> declared,
                   NonFinite nonfinite);

}  // namespace gpux
