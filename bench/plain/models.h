#pragma once

#include <cstdint>
#include <filesystem>

namespace gpux::bench {

/// Writes a chain of small matrix products: about 50 us a run, so that what surrounds a run shows.
void write_small_model(const std::filesystem::path& file);

/// Floats of a row of the wide model.
constexpr std::int64_t wide_model_width = 2048;

/// Writes a perceptron of wide layers, x float32[batch, 2048] to y float32[batch, 2048], with 134 million weights: a
/// run of one row reads all of them for little work, so that rows that share a run cost a fraction of a run each.
void write_wide_model(const std::filesystem::path& file);

/// A size of a dimension: any.
constexpr std::int64_t free_batch = -1;

/// Writes ResNet-50's graph for so many images of 224 x 224 (batch normalisation folded into the convolutions, 25.5
/// million weights that are not trained): 4.1 GMAC an image.
void write_resnet50(const std::filesystem::path& file, std::int64_t images = 1);

}  // namespace gpux::bench
