#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"
#include "onnx/quantize.h"

/// Variants of a model in another precision, kept only where they answer nearly as the model does.
namespace gpux::evaluation {

/// Agreement of two lists of answers, sample by sample.
struct Agreement {
  std::vector<double> cosines;  ///< a sample each
  double mean = 0;
  double least = 0;
};

/// Outputs of a model for each sample, in the order of the samples.
using Answers = std::vector<NamedValues>;
using Ask = std::function<Answers(const Runtime&)>;

/// A sample's cosine is that of its output that is furthest off: of floating type, or, where none is, the share of
/// equal elements. 0 where an output is missing, of another shape, or has NaN or infinities where the other has not.
/// Pure.
Agreement agreement(const Answers& expected, const Answers& got);

struct GateOptions {
  std::string precision = "int8";  ///< or "fp16"
  double min_cosine = 0.98;        ///< the mean of all samples
  bool reduce_range = false;       ///< as in onnx::QuantizeOptions
  LoadOptions load;                ///< how both models are loaded; the provider is the CPU
  /// Told of what goes on, a short line each time; may be empty.
  std::function<void(const std::string&)> progress;
};

/// A node that kept its weights so that the rest passes.
struct Exclusion {
  onnx::QuantizedNode node;
  double alone = 0;  ///< mean cosine with this node quantized and no other
};

/// Runs `model` on the CPU, with the other options of `load`, and returns its outputs per sample. Errors as of Runtime
/// and `ask`; invalid_input where there are no samples.
Answers answers_on_cpu(const std::filesystem::path& model, const Ask& ask, const LoadOptions& load);

/// A variant that was written, and its agreement with the model.
struct GatedVariant {
  std::vector<onnx::QuantizedNode> quantized, left_alone;  ///< left alone for reasons of their own
  std::vector<Exclusion> excluded;                         ///< in the order in which they were
  std::uint64_t weight_bytes_before = 0, weight_bytes_after = 0;
  Agreement at_first;   ///< with all quantized that could be
  Agreement agreement;  ///< agreement of the written variant with the model
};

/// Writes the variant of `model` in options.precision to `file`. If its outputs are not within the tolerance, each
/// converted node is measured alone, and the one with the largest error keeps its weights, then the next, until the
/// rest passes. Errors as of onnx::quantize(), onnx::to_float16() and Runtime; invalid_model where nothing can be
/// converted, or nothing passes.
GatedVariant make_gated_variant(const std::filesystem::path& model, const std::filesystem::path& file, const Ask& ask,
                                const GateOptions& options);

}  // namespace gpux::evaluation
