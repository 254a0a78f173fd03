#pragma once

#include <memory>

#include "vector_store/vector_store.h"

namespace gpux::vector_store {

/// Collections of fewer points have no approximate index: every vector is compared, which takes milliseconds.
inline constexpr std::size_t min_indexed_points = 50'000;

/// A collection in one file (vectors_file.h), for the processes of one machine: any number read it, one writes it, with
/// FILE.lock. upsert() appends a segment and waits for the disk. finish() writes many small segments as few large ones
/// into a new file, which replaces the old one as a whole, and adds an index from min_indexed_points on.
/// Errors as VectorStore; storage also where another process writes the file.
std::unique_ptr<VectorStore> open_file_store(const StoreUrl& url);

}  // namespace gpux::vector_store
