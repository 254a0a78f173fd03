#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "checkpoint/sentence_model.h"
#include "evaluation/kept_variant.h"
#include "evaluation/precision_gate.h"
#include "model/load_settings.h"

namespace gpux::evaluation {

/// The flags that ask for a variant of a model in another precision, or for a decoder with quantized weights, as typed.
struct QuantizeFlags {
  std::string precision;  ///< --quantize
  std::string texts, samples;
  bool reduce_range = false;
  std::int64_t block_size = 0;      ///< block size of a decoder's weights; 0: not given
  bool zero_points = false;         ///< whether its blocks have zero points
  double max_perplexity_ratio = 0;  ///< maximum ratio of a decoder's perplexity to the original's; 0: not given

  [[nodiscard]] bool given() const noexcept { return !precision.empty(); }

  /// Whether a setting of decoders is among them.
  [[nodiscard]] bool has_blocks() const noexcept {
    return precision == "int4" || block_size != 0 || zero_points || max_perplexity_ratio != 0;
  }
};

/// The flags with which the model itself is loaded: without the --min-cosine that is the variant's.
LoadRequest request_beside(const LoadRequest& load);

/// A variant that was made and is within the tolerance of its model.
struct MadeVariant {
  KeptVariant kept;
  GatedVariant made;
  double min_cosine = 0;
  std::string what;  ///< that the cosines are of: "64 recorded texts"
};

/// Makes it, in `folder`. A model that reads texts is compared on those of --texts, or on recorded ones; any other on
/// --samples. Errors as of make_gated_variant(); usage where there is nothing to compare on.
MadeVariant make_variant(const QuantizeFlags& flags, const LoadRequest& load, const LoadOptions& options,
                         const std::filesystem::path& onnx_file,
                         const std::optional<checkpoint::SentenceModel>& sentences, const std::filesystem::path& folder,
                         const VariantListener& listener);

/// One line with the size of the variant and its agreement with the model.
std::string report_of(const MadeVariant& made);
/// One line that lists what was quantized, and what was not and why.
std::string details_of(const MadeVariant& made);
nlohmann::ordered_json json_of(const MadeVariant& made);

}  // namespace gpux::evaluation
