#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generation/quantization_gate.h"
#include "gpux/runtime.h"
#include "text/tokenizer.h"

/// How far keys and values in int8 change what a decoder predicts, beside those of its file.
namespace gpux {

/// Keys and values in int8 are refused where the perplexity of recorded texts is more than so many times that with keys
/// and values as in the model's file.
inline constexpr double max_cache_perplexity_ratio = 1.05;

/// Error usage where the agreement is not within that, or no number: the setting is not for this model.
void require_cache_agreement(const generation::QuantizationAgreement& agreement);

/// Predictions for the recorded texts by a decoder with keys and values in int8, and by what `load_as_written` loads
/// after that has been unloaded. Errors of the loader and of generation::predict().
generation::QuantizationAgreement measure_cache_agreement(Runtime in_int8,
                                                          const std::function<Runtime()>& load_as_written,
                                                          const text::Tokenizer& tokenizer, std::size_t context_length);

/// Where the agreement is kept for a decoder in these files, or of this digest if it is not empty. `computed_by`: what
/// else predictions follow from. The stamp of a file (base/changing_files.h) stands for its content.
std::filesystem::path kept_agreement_file(const std::vector<std::filesystem::path>& files, const std::string& digest,
                                          const std::string& computed_by);
std::optional<generation::QuantizationAgreement> read_kept_agreement(const std::filesystem::path& file);
/// Where it cannot be written, it will be measured again.
void keep_agreement(const std::filesystem::path& file, const generation::QuantizationAgreement& agreement);

}  // namespace gpux
