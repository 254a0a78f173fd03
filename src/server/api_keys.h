#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpux::server {

/// Whether a request may pass: no keys are set, or one of them came as "Bearer KEY" in its field Authorization or as it
/// is in X-API-Key. Takes the same time wherever a wrong key differs.
bool holds_key(std::span<const std::string> keys, std::string_view authorization, std::string_view x_api_key);

}  // namespace gpux::server
