#pragma once

#include <string>
#include <string_view>

#include "gpux/verdict.h"

namespace gpux::server {

/// What computes a model's answers, in short, as each answer names it.
struct RanOn {
  /// The providers that hold nodes, most first, as a list of RFC 8941, the first with the precision and the model's
  /// digest: `encoder;nodes=194;precision=fp32;model="6fdcf7d36367"`. Without nodes where the placement is not known.
  std::string header;
  std::string fingerprint;  ///< of the same: "fp_6fdcf7d36367_encoder_fp32"
};

/// The header of a model with two towers, each with its own verdict; those of the image tower have `tower=image`. Pure.
std::string header_of_towers(const std::string& header, const Verdict& image_tower);

/// `digest`: of the model, in hexadecimal. Characters that neither text can have are '_'. Pure.
RanOn ran_on(const Verdict& verdict, std::string_view digest);

}  // namespace gpux::server
