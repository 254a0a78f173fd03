#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "server/protocols/openapi/operation.h"

/// Schemas of requests for generated texts, as several protocols have them.
namespace gpux::server::openapi {

/// Schema of a number from `low` to `high`, or null.
Json number_from(double low, double high);

/// Schema of a number above 0 and up to 1, or null.
Json share();

/// Schema of a repetition penalty, a factor above 0, or null; a FieldSchema.
Json penalty_factor(const ServedList& models);

/// Schema of the tools that a chat may call, or null; a FieldSchema.
Json tools(const ServedList& models);

/// Schema of a whole number from `low` to `high`, or null.
Json whole_from(std::int64_t low, std::int64_t high);

Json list(Json items, std::size_t least, std::size_t most);

/// Operation with an answer as JSON, or streamed with this media type.
Operation generated_answer(Json answer, const std::string& streamed);

}  // namespace gpux::server::openapi
