#pragma once

#include <memory>

#include "vector_store/vector_store.h"

namespace gpux::vector_store {

/// A collection of a Qdrant server, by its REST interface. Its facts are a point of the collection gpux_collections.
/// The key is that of the address, or of the variable QDRANT_API_KEY. A large upsert() is sent as several requests,
/// each waited for: where one fails, those before it are stored, and the same call again is safe.
std::unique_ptr<VectorStore> open_qdrant(const StoreUrl& url, const Cancellation& cancellation = {});

}  // namespace gpux::vector_store
