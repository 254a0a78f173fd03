#include "base/storage_error.h"

#include <fmt/format.h>

#include "base/format_message.h"
#include "gpux/error.h"

namespace gpux {

void throw_storage_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  throw Error(ErrorCode::storage, format_message("cannot {} '{}': {}", action, file_at(path),
                                                 std::generic_category().message(error_number)));
}

}  // namespace gpux
