#pragma once

#include <span>

#include "server/protocols/field.h"
#include "server/protocols/openapi/operation.h"

namespace gpux::server::openapi {

/// An object that has these fields and no others.
Json object_schema(std::span<const Field> fields, const ServedList& models);

/// Schemas of fields that accept a single value, or null: false, "", [] or {}. Each is a FieldSchema.
Json only_false(const ServedList& models);
/// "text", alone or in a list.
Json only_text(const ServedList& models);
Json only_empty_text(const ServedList& models);
Json only_empty_list(const ServedList& models);
Json only_empty_object(const ServedList& models);

}  // namespace gpux::server::openapi
