#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace gpux::server {

/// An image as it came: base64 or a data URL.
struct ImageInput {
  std::string value;
};

/// Error invalid_input that names the place where it is no text, empty or an address.
ImageInput read_image(const nlohmann::json& value, const std::string& place);

}  // namespace gpux::server
