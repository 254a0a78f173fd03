#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpux/error.h"
#include "server/http/server.h"
#include "server/store_changes/store_jobs.h"

namespace gpux::server {

/// The answer to a request that changes the store, as Ollama's clients read it: lines of JSON with "status" and, while
/// something is transferred, "digest", "total" and "completed"; the last one has the status "success", or "error".
/// Source: Ollama's API reference (docs/api.md, "Pull a Model"). What a client does not read in time is left out, but
/// for the last line. All members from any thread.
class StatusLines : public std::enable_shared_from_this<StatusLines> {
 public:
  /// `is_streamed`: else the last line alone is the answer, with the status of an error.
  StatusLines(std::shared_ptr<http::Exchange> exchange, bool is_streamed);

  /// The first one begins a streamed answer: an error before it is an answer of its own.
  void write(const JobStatus& status);

  /// Empty: success.
  void finish(const std::optional<Error>& failure);

 private:
  const std::shared_ptr<http::Exchange> exchange_;
  const bool is_streamed_;
  std::mutex mutex_;
  bool has_begun_ = false, has_ended_ = false, has_room_ = true;
};

/// {"status", "digest", "total", "completed"}, without those that are not known.
std::string status_json(const JobStatus& status);

}  // namespace gpux::server
