#pragma once

#include "model/open_encoder.h"
#include "vector_store/collection.h"

namespace gpux::cli {

/// The facts of a collection of the encoder's dense vectors, as its options make them; `is_hybrid`: with sparse vectors
/// beside them. Error usage where the model makes none.
vector_store::CollectionFacts facts_of(const OpenEncoder& encoder, bool is_hybrid = false);

/// The encoder's options for the sparse vectors of a collection.
embedding::EmbedOptions sparse_options(const OpenEncoder& encoder);

}  // namespace gpux::cli
