#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "server/protocols/openapi/operation.h"

/// Schemas of requests for generated texts, as several protocols have them.
namespace gpux::server::openapi {

/// Members that all protocols read alike: read_common_sampling().
Json sampling();

/// The functions that a chat may call.
Json tools();

/// A whole number, or null.
Json whole_from(std::int64_t low, std::int64_t high);

Json list(Json items, std::size_t least, std::size_t most);

/// Puts the members of `more` behind.
void add(Json& properties, Json more);

/// JSON in; JSON out, or text in pieces of this media type.
Operation generation(Json request, Json answer, const std::string& streamed);

}  // namespace gpux::server::openapi
