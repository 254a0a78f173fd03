#include "base/storage_error.h"

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux {

void throw_storage_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  throw Error(ErrorCode::storage,
              fmt::format("cannot {} '{}': {}", action, path.string(), std::generic_category().message(error_number)));
}

}  // namespace gpux
