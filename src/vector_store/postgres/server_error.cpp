#include "vector_store/postgres/server_error.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"

namespace gpux::vector_store {
namespace {

// The beginning of the SQLSTATE, the longer before the shorter. Source: PostgreSQL's appendix of error codes.
constexpr std::array<std::pair<std::string_view, ErrorCode>, 10> codes{{{"42501", ErrorCode::permission},
                                                                        {"28", ErrorCode::permission},
                                                                        {"53100", ErrorCode::storage},
                                                                        {"53", ErrorCode::resource_exhausted},
                                                                        {"54", ErrorCode::invalid_input},
                                                                        {"58", ErrorCode::storage},
                                                                        {"08", ErrorCode::network},
                                                                        {"57", ErrorCode::network},
                                                                        {"3D", ErrorCode::not_found},
                                                                        {"25006", ErrorCode::permission}}};

ErrorCode code_of(std::string_view state) noexcept {
  if (state.empty()) return ErrorCode::network;
  for (const auto& [beginning, code] : codes) {
    if (state.starts_with(beginning)) return code;
  }
  return ErrorCode::invalid_input;
}

std::string first_line(std::string_view message) {
  const auto begin = message.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "the connection was lost";
  message = message.substr(begin);
  return one_line(message.substr(0, message.find('\n')));
}

}  // namespace

Error server_error(std::string_view state, std::string_view message, std::string_view shown) {
  return Error(code_of(state), fmt::format("'{}': {}", shown, first_line(message)));
}

Error connection_error(std::string_view message, bool asked_for_password, std::string_view shown) {
  // The connection's own SQLSTATE is not published by libpq; the words are those of a server with English messages.
  const bool is_refused = asked_for_password || message.find("authentication failed") != std::string_view::npos;
  const bool is_missing = message.find("does not exist") != std::string_view::npos;
  const ErrorCode code = is_refused ? ErrorCode::permission : is_missing ? ErrorCode::not_found : ErrorCode::network;
  const std::string_view remedy =
      asked_for_password ? "; PGPASSWORD or ~/.pgpass has the password, or the address after USER:" : "";
  return Error(code, fmt::format("'{}': {}{}", shown, first_line(message), remedy));
}

}  // namespace gpux::vector_store
