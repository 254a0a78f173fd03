#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/kept_variant.h"
#include "cli/load_flags.h"
#include "embedding/sentence_model.h"
#include "gpux/model_info.h"
#include "runtime/precision_gate.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags that ask for a variant of a model in another precision, as typed.
struct QuantizeFlags {
  std::string precision;  ///< --quantize
  std::string texts, samples;
  bool reduce_range = false;

  [[nodiscard]] bool given() const noexcept { return !precision.empty(); }
};

/// `load`: the flags of the same command, whose --min-cosine it shares.
void add_quantize_flags(CLI::App& command, QuantizeFlags& flags);

/// Error usage where flags are given that nothing has a use for. `has_others`: variants are there that --quantize need
/// not make, to be compared all the same.
void check_quantize_flags(const QuantizeFlags& flags, const LoadFlags& load, bool has_others = false);

/// The flags with which the model itself is loaded: without the --min-cosine that is the variant's.
LoadFlags load_flags_beside(const LoadFlags& load);

/// A variant that was made and is within the tolerance of its model.
struct MadeVariant {
  KeptVariant kept;
  runtime::GatedVariant made;
  double min_cosine = 0;
  std::string what;  ///< that the cosines are of: "64 recorded texts"
};

/// Makes it, in `folder`. A model that reads texts is compared on those of --texts, or on recorded ones; any other on
/// --samples. Errors as of runtime::make_gated_variant(); usage where there is nothing to compare on.
MadeVariant make_variant(const QuantizeFlags& flags, const LoadFlags& load, const LoadOptions& options,
                         const std::filesystem::path& onnx_file,
                         const std::optional<embedding::SentenceModel>& sentences, const std::filesystem::path& folder,
                         const Context& context);

/// How large the variant is, and how near to the model: a line.
std::string report_of(const MadeVariant& made);
/// What was quantized and what was not, and why: a line.
std::string details_of(const MadeVariant& made);
nlohmann::ordered_json json_of(const MadeVariant& made);

}  // namespace gpux::cli
