#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "server/protocols/openapi/operation.h"

/// Schemas of requests for generated texts, as several protocols have them.
namespace gpux::server::openapi {

/// A number, or null.
Json number_from(double low, double high);

/// Above 0 and up to 1, or null.
Json share();

/// As a FieldSchema: a factor above 0 by which tokens that were there are less likely, or null.
Json penalty_factor(const ServedList& models);

/// As a FieldSchema: the functions that a chat may call, or null.
Json tools(const ServedList& models);

/// A whole number, or null.
Json whole_from(std::int64_t low, std::int64_t high);

Json list(Json items, std::size_t least, std::size_t most);

/// JSON, or text in pieces of this media type.
Operation generated_answer(Json answer, const std::string& streamed);

}  // namespace gpux::server::openapi
