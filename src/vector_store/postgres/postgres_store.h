#pragma once

#include <memory>

#include "vector_store/vector_store.h"

namespace gpux::vector_store {

/// A table of PostgreSQL with pgvector 0.8 or newer: columns id, embedding, text, payload, created_at, with sparse
/// vectors also sparse. Its facts are a row of the table gpux_collections. Each upsert() is one transaction: a binary
/// COPY into a temporary table, and INSERT … ON CONFLICT from there. Errors as VectorStore; not_found (libpq).
std::unique_ptr<VectorStore> open_postgres(const StoreUrl& url, const Cancellation& cancellation = {});

}  // namespace gpux::vector_store
