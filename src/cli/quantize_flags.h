#pragma once

#include "evaluation/made_variant.h"

namespace CLI {
class App;
}

namespace gpux::cli {

using evaluation::QuantizeFlags;

/// `load`: the flags of the same command, whose --min-cosine it shares.
void add_quantize_flags(CLI::App& command, evaluation::QuantizeFlags& flags);

/// Adds the flags with those of decoders, which only import has.
void add_import_quantize_flags(CLI::App& command, evaluation::QuantizeFlags& flags);

/// Error usage where flags are given that nothing has a use for. `has_others`: variants are there that --quantize need
/// not make, to be compared all the same.
void check_quantize_flags(const evaluation::QuantizeFlags& flags, const LoadRequest& load, bool has_others = false);

}  // namespace gpux::cli
