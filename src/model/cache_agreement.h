#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "generation/quantization_gate.h"
#include "gpux/runtime.h"
#include "text/tokenizer.h"

/// How far keys and values in int8 change what a decoder predicts, beside those of its file.
namespace gpux {

/// Keys and values in int8 are refused where the perplexity of recorded texts is more than so many times that with keys
/// and values as in the model's file.
inline constexpr double max_cache_perplexity_ratio = 1.05;

/// Error invalid_model where the agreement is not within that.
void require_cache_agreement(const generation::QuantizationAgreement& agreement);

/// Loads the decoder with keys and values in int8 (true), or as in its file.
using CacheLoader = std::function<Runtime(bool in_int8)>;

/// Predictions for the recorded texts with one and the other, loaded one after the other. Errors of the loader and of
/// generation::predict().
generation::QuantizationAgreement measure_cache_agreement(const CacheLoader& load, const text::Tokenizer& tokenizer,
                                                          std::size_t context_length);

/// Where the agreement is kept for a decoder in these files, or of this digest if it is not empty, with sessions as
/// `ran_on` says (a verdict). A file's size and date stand for its content.
std::filesystem::path kept_agreement_file(const std::vector<std::filesystem::path>& files, const std::string& digest,
                                          const std::string& ran_on);
std::optional<generation::QuantizationAgreement> read_kept_agreement(const std::filesystem::path& file);
/// Where it cannot be written, it will be measured again.
void keep_agreement(const std::filesystem::path& file, const generation::QuantizationAgreement& agreement);

}  // namespace gpux
