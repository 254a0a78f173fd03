#pragma once

#include <string>
#include <string_view>

#include "gpux/error.h"

namespace gpux::vector_store {

/// The error that a statement failed with. `state`: its SQLSTATE, five characters, or empty where the connection was
/// lost. `message`: the server's own, of which the first line counts. `shown`: the collection's address. Pure.
Error server_error(std::string_view state, std::string_view message, std::string_view shown);

/// The error that a connection failed with. `asked_for_password`: the server wanted one and none was known. Pure.
Error connection_error(std::string_view message, bool asked_for_password, std::string_view shown);

}  // namespace gpux::vector_store
