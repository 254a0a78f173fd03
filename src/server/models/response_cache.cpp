#include "server/models/response_cache.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "base/sha256.h"
#include "server/http/completed_exchange.h"

namespace gpux::server {
namespace {

// What an entry takes besides its texts.
constexpr std::uint64_t bytes_per_entry = 512;

// Of one run.
constexpr std::array<std::string_view, 6> of_one_request{"X-Queue-Time",   "X-Inference-Time",    "X-Total-Time",
                                                         "X-Compute-Time", "X-Tokenization-Time", "Retry-After"};

// How the body is written, or which form the answer has.
constexpr std::array<std::string_view, 3> fields_of_form{"Content-Type", "Inference-Header-Content-Length", "Accept"};

// With its length, so that no two lists of parts are the same bytes.
void add_part(Sha256& digest, std::string_view part) {
  const std::uint64_t length = part.size();
  digest.update(std::as_bytes(std::span(&length, 1)));
  digest.update(http::bytes_of(part));
}

class Cached : public http::CompletedExchange {
 public:
  Cached(std::shared_ptr<http::Exchange> inner, ResponseCache& cache, std::string digest,
         std::shared_ptr<const ServedModel> model)
      : CompletedExchange(std::move(inner)), cache_(cache), digest_(std::move(digest)), model_(std::move(model)) {}

  // A streamed one is none that is kept.
  void start(http::Response head) override {
    is_streamed_ = true;
    CompletedExchange::start(std::move(head));
  }

 private:
  void complete(http::Response& response) const override {
    if (response.status != 200 || is_streamed_) return;
    CachedAnswer answer;
    for (std::size_t i = 0; i < response.headers.size(); ++i) {
      const http::Headers::Field field = response.headers.at(i);
      const bool is_of_one =
          std::ranges::any_of(of_one_request, [&](std::string_view name) { return http::same_name(name, field.name); });
      if (!is_of_one) answer.headers.emplace_back(field.name, field.value);
    }
    answer.body.reserve(response.body_bytes());
    answer.body = response.text;
    for (const http::Piece& piece : response.pieces) answer.body += piece.text();
    cache_.keep(digest_, model_, std::move(answer));
  }

  ResponseCache& cache_;
  const std::string digest_;
  const std::shared_ptr<const ServedModel> model_;
  bool is_streamed_ = false;
};

}  // namespace

std::string digest_of(const CachedRequest& asked, const ServedModel& model) {
  Sha256 digest;
  for (const std::string_view part :
       {std::string_view(model.name()), std::string_view(model.version()), std::string_view(model.digest()),
        asked.verdict, asked.route, asked.key, std::string_view(asked.request.query)}) {
    add_part(digest, part);
  }
  for (const std::string_view field : fields_of_form) add_part(digest, asked.request.headers[field]);
  add_part(digest, asked.request.body.text());
  return digest.hex();
}

std::uint64_t CachedAnswer::bytes() const noexcept {
  std::uint64_t sum = body.capacity() + bytes_per_entry;
  for (const auto& [name, value] : headers) sum += sizeof(headers.front()) + name.capacity() + value.capacity();
  return sum;
}

std::shared_ptr<const CachedAnswer> ResponseCache::find(const std::string& digest,
                                                        const std::shared_ptr<const ServedModel>& model) {
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) {
    ++counts_.misses;
    return nullptr;
  }
  const Entries::iterator entry = found->second;
  if (entry->model.lock() != model) {
    ++counts_.misses;
    drop(entry);
    return nullptr;
  }
  ++counts_.hits;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->answer;
}

void ResponseCache::keep(const std::string& digest, const std::shared_ptr<const ServedModel>& model,
                         CachedAnswer answer) {
  constexpr std::uint64_t parts = 4;
  const std::uint64_t bytes = answer.bytes();
  if (bytes > max_bytes_ / parts) return;
  auto kept = std::make_shared<const CachedAnswer>(std::move(answer));
  const std::lock_guard lock(mutex_);
  if (const auto found = by_digest_.find(digest); found != by_digest_.end()) drop(found->second);
  while (counts_.bytes + bytes > max_bytes_) {
    drop(std::prev(entries_.end()));
    ++counts_.evicted;
  }
  entries_.push_front({.digest = digest, .model = model, .answer = std::move(kept), .bytes = bytes});
  by_digest_.emplace(entries_.front().digest, entries_.begin());
  counts_.bytes += bytes;
}

// Under the mutex.
void ResponseCache::drop(Entries::iterator entry) {
  counts_.bytes -= entry->bytes;
  by_digest_.erase(entry->digest);
  entries_.erase(entry);
}

ResponseCacheCounts ResponseCache::counts() const {
  const std::lock_guard lock(mutex_);
  ResponseCacheCounts counts = counts_;
  counts.entries = entries_.size();
  counts.max_bytes = max_bytes_;
  return counts;
}

bool may_be_cached(const http::Request& request) {
  // Reading it for its digest is work for the thread that has received it.
  constexpr std::size_t max_body_bytes = 1 << 20;
  return request.body.bytes.size() <= max_body_bytes;
}

std::shared_ptr<http::Exchange> with_cache(std::shared_ptr<http::Exchange> exchange, ResponseCache& cache,
                                           const CachedRequest& asked,
                                           const std::shared_ptr<const ServedModel>& model) {
  std::string digest = digest_of(asked, *model);
  if (const auto answer = cache.find(digest, model)) {
    http::Response response;
    for (const auto& [name, value] : answer->headers) response.headers.add(name, value);
    response.headers.add("X-Gpux-Cache", "hit");
    response.pieces.push_back({.bytes = http::bytes_of(answer->body), .owner = answer});
    exchange->respond(std::move(response));
    return nullptr;
  }
  return std::make_shared<Cached>(std::move(exchange), cache, std::move(digest), model);
}

}  // namespace gpux::server
