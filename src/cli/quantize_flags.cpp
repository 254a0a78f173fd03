#include "cli/quantize_flags.h"

#include <array>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::cli {
namespace {

constexpr const char* group = "A variant in another precision";

}  // namespace

void add_import_quantize_flags(CLI::App& command, evaluation::QuantizeFlags& flags) {
  add_quantize_flags(command, flags);
  // It replaces the precisions of variants.
  command.remove_option(command.get_option("--quantize"));
  command
      .add_option("--quantize", flags.precision,
                  "also store a variant with weights of this precision: int8 for the CPU, fp16 for GPUs. A model that "
                  "generates text is stored with weights of this precision alone: int4 or int8")
      ->check(CLI::IsMember({"int4", "int8", "fp16"}))
      ->group(group);
  const char* blocks = "Quantized weights of a model that generates text";
  command
      .add_option("--quantize-block", flags.block_size,
                  "weights that share a scale: 32 or 128, which is smaller and less accurate (default: 32)")
      ->check(CLI::IsMember({32, 128}))
      ->group(blocks);
  command
      .add_flag("--quantize-zero-points", flags.zero_points,
                "each block also has a zero point, for weights that are not symmetric")
      ->group(blocks);
  command
      .add_option(
          "--max-perplexity-ratio", flags.max_perplexity_ratio,
          "refuse them if the perplexity of --texts FILE (default: recorded texts) is more than this many times "
          "that of the file's weights (default: 1.5)")
      ->check(CLI::PositiveNumber)
      ->group(blocks);
}

void add_quantize_flags(CLI::App& command, evaluation::QuantizeFlags& flags) {
  command
      .add_option("--quantize", flags.precision,
                  "also store a variant with weights of this precision: int8 for the CPU, fp16 for GPUs")
      ->check(CLI::IsMember({"int8", "fp16"}))
      ->group(group);
  command
      .add_option("--texts", flags.texts,
                  "compare it with the model on these texts, one per line (default: recorded ones)")
      ->group(group);
  command
      .add_option("--samples", flags.samples,
                  "compare it on these inputs: a folder with test_data_set_*, an .npz file, JSON lines")
      ->group(group);
  command
      .add_flag("--reduce-range", flags.reduce_range,
                "7-bit weights, also for processors without VNNI (default if this one lacks VNNI)")
      ->group(group);
  command.get_option("--min-cosine")
      ->description("minimum mean cosine to the model for a variant to be kept (default: 0.98)")
      ->group(group);
}

void check_quantize_flags(const evaluation::QuantizeFlags& flags, const LoadRequest& load, bool has_others) {
  if (!flags.texts.empty() && !flags.samples.empty()) {
    throw Error(ErrorCode::usage, "--texts and --samples are two ways: use one of them");
  }
  if (flags.given()) return;
  const std::array<std::pair<const char*, bool>, 7> without{
      {{"--texts", !has_others && !flags.texts.empty()},
       {"--samples", !has_others && !flags.samples.empty()},
       {"--reduce-range", flags.reduce_range},
       {"--quantize-block", flags.block_size != 0},
       {"--quantize-zero-points", flags.zero_points},
       {"--max-perplexity-ratio", flags.max_perplexity_ratio != 0},
       {"--min-cosine", !has_others && load.min_cosine.has_value()}}};
  for (const auto& [flag, is_given] : without) {
    if (is_given)
      throw Error(ErrorCode::usage, fmt::format("{} says how weights are quantized: give --quantize too", flag));
  }
}

}  // namespace gpux::cli
