#include "registry/hub/weight_header.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/in_quotes.h"
#include "base/storage_error.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t size_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t limit_header = std::uint64_t{100} << 20;

/// The server answers with the whole file.
struct NoParts {};

// Bytes from `first` up to `end`.
std::string fetch_part(Client& client, const RemoteWeights& weights, std::uint64_t first, std::uint64_t end) {
  const Request request{.url = weights.url,
                        .authorization = weights.authorization,
                        .range = ByteRange{first, end - 1},
                        .limit_body_bytes = end - first,
                        .on_answer =
                            [](const Response& answer) {
                              if (answer.status != 206) throw NoParts{};
                            },
                        .on_body = {},
                        .on_sent = {}};
  Response response = client.send(request);
  if (!response.is_success()) throw weights.error_of(response);
  if (response.body.size() != end - first) {
    throw Error(ErrorCode::network, fmt::format("the download of {} is damaged: {} bytes came instead of {}",
                                                in_quotes(weights.name), response.body.size(), end - first));
  }
  return std::move(response.body);
}

std::uint64_t header_bytes_of(const RemoteWeights& weights, const std::string& begin) {
  // The format has it in little-endian order, as the processors that gpux supports.
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, begin.data(), size_bytes);
  if (bytes > limit_header || bytes > weights.bytes - size_bytes) {
    throw Error(ErrorCode::network, fmt::format("{} is no safetensors file: its header has {} bytes, and the file {}",
                                                in_quotes(weights.name), bytes, weights.bytes));
  }
  return bytes;
}

}  // namespace

std::optional<std::string> fetch_beginning(Client& client, const RemoteWeights& weights, std::uint64_t bytes) {
  try {
    return fetch_part(client, weights, 0, std::min(bytes, weights.bytes));
  } catch (const NoParts&) {
    return std::nullopt;
  }
}

std::optional<std::string> fetch_weight_header(Client& client, const RemoteWeights& weights) {
  if (weights.bytes < size_bytes) {
    throw Error(ErrorCode::network,
                fmt::format("{} is no safetensors file: it has {} bytes", in_quotes(weights.name), weights.bytes));
  }
  // Most headers are shorter: one request has all of it.
  constexpr std::uint64_t first_part = std::uint64_t{64} << 10;
  try {
    std::string header = fetch_part(client, weights, 0, std::min(first_part, weights.bytes));
    const std::uint64_t end = size_bytes + header_bytes_of(weights, header);
    if (header.size() < end) header += fetch_part(client, weights, header.size(), end);
    header.resize(end);
    return header;
  } catch (const NoParts&) {
    return std::nullopt;
  }
}

void write_header_file(const fs::path& file, const std::string& header, std::uint64_t bytes) {
  write_file_atomically(file, header);
  std::error_code error;
  fs::resize_file(file, bytes, error);
  require_stored(error, "resize", file);
}

}  // namespace gpux::registry
