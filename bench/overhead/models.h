#pragma once

#include <filesystem>

namespace gpux::bench {

/// Writes a chain of small matrix products: about 50 us a run, so that what surrounds a run shows.
void write_small_model(const std::filesystem::path& file);

/// Writes ResNet-50's graph for one picture of 224 x 224 (batch normalisation folded into the convolutions, 25.5
/// million weights that are not trained): 4.1 GMAC a run.
void write_resnet50(const std::filesystem::path& file);

}  // namespace gpux::bench
