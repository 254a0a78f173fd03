#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace gpux::server {

/// An image as it came: base64 or a data URL.
struct EncodedImage {
  std::string value;
};

/// Error invalid_input that names the place where it is no text, empty or an address.
EncodedImage read_image(const nlohmann::json& value, const std::string& place);

}  // namespace gpux::server
