#pragma once

#include "model/open_encoder.h"
#include "vector_store/collection.h"

namespace gpux::cli {

/// The facts of a collection of the encoder's dense vectors, as its options make them.
vector_store::CollectionFacts facts_of(const OpenEncoder& encoder);

}  // namespace gpux::cli
