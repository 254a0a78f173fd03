#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpux::http {

/// A field of a form; the content is a view of the body.
struct FormPart {
  std::string name;
  std::string_view content;
};

/// Whether a Content-Type names multipart/form-data.
[[nodiscard]] bool is_form(std::string_view content_type) noexcept;

/// The fields of a multipart/form-data body (RFC 7578, RFC 2046) in their order, at most 1024. What stands before the
/// first and behind the last boundary is not looked at. Error invalid_input for a body that is none.
[[nodiscard]] std::vector<FormPart> read_form(std::string_view body, std::string_view content_type);

}  // namespace gpux::http
