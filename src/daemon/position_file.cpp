#include "daemon/position_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "gpux/error.h"

namespace gpux::daemon {

ReadPosition read_position(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) return {};
  try {
    const auto json = nlohmann::json::parse(read_file(file, 1 << 16));
    return {.generation = json.at("generation"),
            .inode = json.at("inode"),
            .offset = json.at("offset"),
            .before = json.at("before")};
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::storage,
                format_message("'{}', which says how far events were read, is damaged; without it they are read again",
                               file_at(file)));
  }
}

void write_position(const std::filesystem::path& file, const ReadPosition& position) {
  write_file_atomically(file, fmt::format(R"({{"generation": {}, "inode": {}, "offset": {}, "before": "{}"}})"
                                          "\n",
                                          position.generation, position.inode, position.offset, position.before));
}

}  // namespace gpux::daemon
