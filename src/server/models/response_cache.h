#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/http/server.h"
#include "server/models/served_model.h"

namespace gpux::server {

/// What decides over the answer to a request, but for its model as it is loaded.
struct CachedRequest {
  std::string_view route;    ///< "/v2/models/{name}/infer"
  std::string_view key;      ///< the name of the API key; empty: none
  std::string_view verdict;  ///< RanOn::header
  const http::Request& request;
};

/// Digest of all of it, with the model's name, version and digest: of the query, the fields that say how the body is
/// written, and the body. 64 hexadecimal digits.
std::string digest_of(const CachedRequest& asked, const ServedModel& model);

/// An answer without what belongs to one request: its times and ids.
struct CachedAnswer {
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

struct ResponseCacheCounts {
  std::uint64_t hits = 0, misses = 0, evicted = 0;
  std::uint64_t entries = 0, bytes = 0, max_bytes = 0;  ///< now
};

/// Answers of models that give the same one to the same request. The least recently used make room. Those of a model
/// that is unloaded or loaded again are not found any more. All members from any thread.
class ResponseCache {
 public:
  /// 0: nothing is kept.
  explicit ResponseCache(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  [[nodiscard]] bool is_on() const noexcept { return max_bytes_ != 0; }

  /// Null where there is none; counts a hit or a miss.
  [[nodiscard]] std::shared_ptr<const CachedAnswer> find(const std::string& digest,
                                                         const std::shared_ptr<const ServedModel>& model);

  /// Not kept where it takes more than a quarter of the memory.
  void keep(const std::string& digest, const std::shared_ptr<const ServedModel>& model, CachedAnswer answer);

  [[nodiscard]] ResponseCacheCounts counts() const;

 private:
  struct Entry {
    std::string digest;
    std::weak_ptr<const ServedModel> model;
    std::shared_ptr<const CachedAnswer> answer;
    std::uint64_t bytes = 0;
  };

  using Entries = std::list<Entry>;

  void drop(Entries::iterator entry);

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;  // the last used first
  std::unordered_map<std::string_view, Entries::iterator> by_digest_;
  ResponseCacheCounts counts_;
};

/// Whether the body is short enough: up to 1 MiB.
bool may_be_cached(const http::Request& request);

/// Answers from the cache, and says so, where it has the answer; null then. Otherwise the exchange whose answer is kept
/// if it is a whole one of a run that succeeded.
std::shared_ptr<http::Exchange> with_cache(std::shared_ptr<http::Exchange> exchange, ResponseCache& cache,
                                           const CachedRequest& asked, const std::shared_ptr<const ServedModel>& model);

}  // namespace gpux::server
