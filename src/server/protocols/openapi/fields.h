#pragma once

#include <span>

#include "server/protocols/field.h"
#include "server/protocols/openapi/operation.h"

namespace gpux::server::openapi {

/// An object that has these fields and no others.
Json object_schema(std::span<const Field> fields, const ServedList& models);

/// As a FieldSchema: a flag that may only be false.
Json only_false(const ServedList& models);

}  // namespace gpux::server::openapi
