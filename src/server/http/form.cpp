#include "server/http/form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "server/http/header_value.h"
#include "server/http/message.h"

namespace gpux::http {
namespace {

constexpr std::size_t max_parts = 1024;
constexpr std::size_t longest_boundary = 70;  // RFC 2046

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_input, "the body is no multipart/form-data: " + why);
}

// The name of the field that these header lines are of.
std::string name_in(std::string_view headers) {
  while (!headers.empty()) {
    const std::size_t end = headers.find("\r\n");
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(end == std::string_view::npos ? headers.size() : end + 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_name(line.substr(0, colon), "Content-Disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    const std::optional<std::string> name = parameter_of(value, "name");
    if (!same_name(kind_of(value), "form-data") || !name) break;
    return *name;
  }
  refuse("a field has no 'Content-Disposition: form-data' with a name");
}

}  // namespace

bool is_form(std::string_view content_type) noexcept {
  return same_name(kind_of(content_type), "multipart/form-data");
}

std::vector<FormPart> read_form(std::string_view body, std::string_view content_type) {
  const std::optional<std::string> boundary = parameter_of(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > longest_boundary) {
    refuse(fmt::format("Content-Type names no boundary of 1 to {} bytes", longest_boundary));
  }
  const std::string delimiter = "\r\n--" + *boundary;
  // The first one may stand at the very beginning.
  std::size_t at = 0;
  if (!body.starts_with(std::string_view(delimiter).substr(2))) {
    at = body.find(delimiter);
    if (at == std::string_view::npos) refuse("there is no boundary");
    at += 2;
  }
  at += delimiter.size() - 2;
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const std::size_t line_end = body.find("\r\n", at);
    if (line_end == std::string_view::npos || !trimmed(body.substr(at, line_end - at)).empty()) {
      refuse("a boundary is not followed by the end of its line");
    }
    const std::size_t next = body.find(delimiter, line_end);
    if (next == std::string_view::npos) refuse("it is cut off");
    if (parts.size() == max_parts) refuse(fmt::format("it has more than {} fields", max_parts));
    const std::string_view part = body.substr(line_end, next - line_end);
    const std::size_t blank = part.find("\r\n\r\n");
    if (blank == std::string_view::npos) refuse("a field has no blank line behind its headers");
    const std::string_view headers = blank == 0 ? std::string_view() : part.substr(2, blank - 2);
    parts.push_back({name_in(headers), part.substr(blank + 4)});
    at = next + delimiter.size();
  }
  return parts;
}

}  // namespace gpux::http
