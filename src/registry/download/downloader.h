#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "registry/http/client.h"

namespace gpux::registry {

/// A file to be downloaded.
struct DownloadItem {
  std::string name;  ///< for messages: "onnx/model.onnx"
  std::string url;
  std::string authorization;  ///< as of Request
  std::vector<std::pair<std::string, std::string>> headers;
  /// The name of the file in the folder, and what a later download resumes: what identifies the content, as its digest.
  /// Made of letters, digits, '.', '_' and '-'.
  std::string key;
  std::optional<std::uint64_t> bytes;  ///< empty: unknown
  /// A strong ETag without quotes, that answers must have; empty: any. An answer with the whole file may have none.
  std::string etag;
  bool has_ranges = true;  ///< the server gives parts of the file; false: it is downloaded in one go
  /// Checks the complete file; returns the problem ("its SHA-256 is …"), empty if there is none. May be null: no check.
  std::function<std::string(const std::filesystem::path&)> problem_of;
  /// The error that an answer without success means. Null: a network error that names the status.
  std::function<Error(const Response&)> error_of;
  /// Called for an answer before its body: may throw. May be null.
  std::function<void(const Response&)> on_answer;
};

/// Progress of the downloads.
struct DownloadProgress {
  std::string file;  ///< the file that the last bytes belong to
  std::string key;   ///< DownloadItem::key of it
  std::uint64_t file_bytes = 0, file_done = 0;
  std::uint64_t bytes = 0, done = 0;  ///< size of all files together, and their bytes that are here
};

struct DownloadOptions {
  unsigned connections = 8;                             ///< transfers at the same time
  std::uint64_t piece_bytes = std::uint64_t{32} << 20;  ///< a larger file is downloaded in pieces of this size
  RetryPolicy retry = {};
  /// One call at a time, from any thread, some times per second and at the end. May be null.
  std::function<void(const DownloadProgress&)> on_progress;
  /// One line for the user: that another process downloads the same, which is waited for. May be null.
  std::function<void(const std::string&)> on_note;
};

struct DownloadResult {
  std::vector<std::filesystem::path> files;  ///< in the order of the items
  std::uint64_t received_bytes = 0;          ///< over the network, in this call
  std::uint64_t resumed_bytes = 0;           ///< that an earlier call had left
};

/// Downloads the files into the folder, which exists: several at a time, large ones in several pieces at a time. What
/// an earlier call left is resumed; what is complete is checked and not downloaded again. Two items with the same key
/// are one file. Errors: as the items' functions; network (also a file with another size or content than it should
/// have, which is removed); storage; of Cancellation::check(). What was downloaded stays in the folder.
DownloadResult download(Client& client, const std::filesystem::path& folder, std::span<const DownloadItem> items,
                        const DownloadOptions& options);

}  // namespace gpux::registry
