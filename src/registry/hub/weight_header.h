#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "registry/http/client.h"

namespace gpux::registry {

/// A file of weights on a server.
struct RemoteWeights {
  std::string name;  ///< for messages
  std::string url;
  std::string authorization;  ///< as of Request
  std::uint64_t bytes = 0;
  std::function<Error(const Response&)> error_of;  ///< the error that an answer without success means
};

/// Downloads the first bytes of a file, `bytes` of them or all. Empty where the server does not give parts of files.
/// Errors as fetch_weight_header().
std::optional<std::string> fetch_beginning(Client& client, const RemoteWeights& weights, std::uint64_t bytes);

/// Downloads the header of a safetensors file: its first 8 bytes, which have the header's size, and the header, which
/// lists the tensors. Empty where the server does not give parts of files. Errors: network (no header of such a file;
/// more than 100 MiB, the format's limit), `error_of`, Client::send().
std::optional<std::string> fetch_weight_header(Client& client, const RemoteWeights& weights);

/// Writes a file of the size of `bytes` that begins with the header; the data behind it takes no space on the disk
/// where the file system has sparse files. Error storage.
void write_header_file(const std::filesystem::path& file, const std::string& header, std::uint64_t bytes);

}  // namespace gpux::registry
