#include "server/protocols/encoded_image.h"

#include <string_view>

#include "server/protocols/request_json.h"

namespace gpux::server {
namespace {

bool is_address(std::string_view value) {
  constexpr std::size_t max_scheme = 16;
  return value.substr(0, max_scheme).find("://") != std::string_view::npos;
}

}  // namespace

EncodedImage read_image(const RequestJson& value, const std::string& place) {
  if (!value.is_string()) refuse_member(place, "is no string; accepted: an image in base64, or a data URL");
  EncodedImage image{value.get<std::string>()};
  if (is_address(image.value)) {
    refuse_member(place, "is an address, and gpux fetches none; accepted: an image in base64, or a data URL");
  }
  if (image.value.empty()) refuse_member(place, "is empty");
  return image;
}

}  // namespace gpux::server
