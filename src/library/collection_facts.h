#pragma once

#include "model/open_encoder.h"
#include "vector_store/collection.h"

namespace gpux {

/// The facts of a collection of the encoder's dense vectors, as these options make them; `is_hybrid`: with sparse
/// vectors beside them. Error usage where the model makes none.
vector_store::CollectionFacts facts_of(const OpenEncoder& encoder, const embedding::EmbedOptions& options,
                                       bool is_hybrid = false);

/// The options with which a run makes both vectors of a text. Error usage where the model makes no sparse ones.
embedding::EmbedOptions with_sparse(const OpenEncoder& encoder, const embedding::EmbedOptions& options);

}  // namespace gpux
