#include "registry/download/downloader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/start_thread.h"
#include "registry/download/partial_file.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

/// A file under way.
struct Fetched {
  Fetched(const DownloadItem& the_item, const fs::path& folder, const std::function<void()>& while_waiting)
      : item(the_item), file(folder, the_item.key, the_item.bytes, the_item.etag, while_waiting) {}

  const DownloadItem& item;
  PartialFile file;
  std::atomic<std::size_t> pieces_left = 0;
  std::atomic<std::uint64_t> done = 0;
};

struct Piece {
  Fetched* fetched;
  Span span;  // up to the largest number where the size is unknown
};

constexpr std::uint64_t unknown_end = std::numeric_limits<std::uint64_t>::max();

/// Another thread has failed, and its error is the one to be thrown.
struct Stopped {};

class Downloads {
 public:
  Downloads(Client& client, const DownloadOptions& options) : client_(client), options_(options) {}

  DownloadResult run(const fs::path& folder, std::span<const DownloadItem> items) {
    open(folder, items);
    for (const auto& [key, fetched] : fetched_) plan(*fetched);
    show(nullptr, true);
    work();
    if (failure_) std::rethrow_exception(failure_);
    show(nullptr, true);
    DownloadResult result{.files = {}, .received_bytes = received_, .resumed_bytes = resumed_};
    for (const DownloadItem& item : items) result.files.push_back(fetched_.at(item.key)->file.complete_path());
    return result;
  }

 private:
  // In the order of the keys, in which all processes lock them: none waits for another that waits for it.
  void open(const fs::path& folder, std::span<const DownloadItem> items) {
    std::map<std::string, const DownloadItem*> by_key;
    for (const DownloadItem& item : items) by_key.emplace(item.key, &item);
    bool has_waited = false;
    for (const auto& [key, item] : by_key) {
      client_.options().cancellation.check();
      const auto while_waiting = [&, name = item->name] {
        client_.options().cancellation.check();
        if (std::exchange(has_waited, true) || !options_.on_note) return;
        options_.on_note(fmt::format("another pull downloads {}; waiting for it", in_quotes(name)));
      };
      fetched_.emplace(key, std::make_unique<Fetched>(*item, folder, while_waiting));
    }
  }

  void plan(Fetched& fetched) {
    const DownloadItem& item = fetched.item;
    if (fetched.file.is_complete()) {
      const std::string problem = item.problem_of ? item.problem_of(fetched.file.complete_path()) : std::string();
      if (problem.empty()) {
        fetched.done = item.bytes.value_or(0);
        total_ += fetched.done;
        done_ += fetched.done;
        resumed_ += fetched.done;
        return;
      }
      fetched.file.discard();
    }
    total_ += item.bytes.value_or(0);
    if (!item.bytes || !item.has_ranges) {
      if (item.bytes) fetched.file.discard();
      fetched.pieces_left = 1;
      pieces_.push_back({&fetched, {0, item.bytes.value_or(unknown_end)}});
      return;
    }
    fetched.done = fetched.file.present_bytes();
    done_ += fetched.done;
    resumed_ += fetched.done;
    const std::vector<Span> spans = cut_in_pieces(fetched.file.missing(), options_.piece_bytes);
    for (const Span& span : spans) pieces_.push_back({&fetched, span});
    fetched.pieces_left = std::max<std::size_t>(1, spans.size());
    if (spans.empty()) pieces_.push_back({&fetched, {}});
  }

  void work() {
    const std::size_t count = std::min<std::size_t>(options_.connections, pieces_.size());
    std::vector<std::jthread> threads =
        start_more_threads(std::max<std::size_t>(count, 1) - 1, [this] { take_pieces(); });
    take_pieces();
    threads.clear();
    for (const auto& [key, fetched] : fetched_) {
      try {
        fetched->file.save();
      } catch (const Error&) {
        if (!failure_) throw;
      }
    }
  }

  void take_pieces() noexcept {
    try {
      for (;;) {
        const std::size_t index = next_.fetch_add(1);
        if (index >= pieces_.size() || is_stopped_) return;
        fetch(pieces_[index]);
      }
    } catch (const Stopped&) {
      return;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      is_stopped_ = true;
    }
  }

  void fetch(const Piece& piece) {
    Fetched& fetched = *piece.fetched;
    if (piece.span.first < piece.span.end || !fetched.item.bytes) fetch_span(fetched, piece.span);
    if (fetched.pieces_left.fetch_sub(1) == 1) finish(fetched);
  }

  void fetch_span(Fetched& fetched, Span span) {
    const DownloadItem& item = fetched.item;
    const bool is_whole = !item.bytes || !item.has_ranges || (span.first == 0 && span.end == *item.bytes);
    std::uint64_t at = span.first;
    // Without ranges each attempt begins at the first byte: what came before is no progress.
    ResumedAttempts attempts(at, 1);
    // Each time that bytes have come, a cut is forgiven, but not for ever.
    for (unsigned cuts = 0;; ++cuts) {
      constexpr unsigned max_cuts = 200;
      try {
        fetch_once(fetched, span, at, is_whole && at == 0);
        if (item.bytes && at != span.end) {
          throw TransferError(ErrorCode::network,
                              fmt::format("{} ended after {} of its {} bytes", in_quotes(item.name), at, span.end),
                              true);
        }
        return;
      } catch (const TransferError& error) {
        const auto delay = retry_delay(
            options_.retry, {.number = attempts.failed_at(at), .status = 0, .is_transient = error.is_transient()}, 0);
        if (!delay || cuts == max_cuts) throw;
        if (!item.bytes || !item.has_ranges) {
          take_back(fetched, at);
          at = 0;
        }
        pause(*delay);
      }
    }
  }

  // One request for the bytes from `at` on, which it moves.
  void fetch_once(Fetched& fetched, Span span, std::uint64_t& at, bool is_whole) {
    const DownloadItem& item = fetched.item;
    Request request{.url = item.url,
                    .headers = item.headers,
                    .authorization = item.authorization,
                    .range = {},
                    .on_answer =
                        [&](const Response& response) {
                          check_answer(item, response, at, is_whole);
                          if (item.on_answer) item.on_answer(response);
                        },
                    .on_body =
                        [&](std::span<const std::byte> bytes) {
                          if (is_stopped_) throw Stopped{};
                          if (bytes.size() > span.end - at) {
                            throw Error(ErrorCode::network, fmt::format("{} is longer than it should be: more than {} "
                                                                        "bytes came",
                                                                        in_quotes(item.name), span.end));
                          }
                          fetched.file.write(at, bytes);
                          at += bytes.size();
                          received_ += bytes.size();
                          fetched.done += bytes.size();
                          done_ += bytes.size();
                          show(&fetched, false);
                        },
                    .retry = options_.retry};
    if (!is_whole) request.range = ByteRange{at, span.end - 1};
    const Response response = client_.send(request);
    if (response.is_success()) return;
    if (item.error_of) throw item.error_of(response);
    throw Error(response.status == 404 ? ErrorCode::not_found : ErrorCode::network,
                fmt::format("{} cannot be downloaded: the server answers {}", in_quotes(item.name), response.status));
  }

  static void check_answer(const DownloadItem& item, const Response& response, std::uint64_t at, bool is_whole) {
    const std::string tag = response.headers.find("etag");
    if (!item.etag.empty() && !tag.empty() && strip_etag(tag) != item.etag) {
      throw Error(ErrorCode::network,
                  fmt::format("{} has changed on the server while it was downloaded", in_quotes(item.name)));
    }
    if (!item.etag.empty() && !is_whole && !is_strong_etag(tag)) {
      throw Error(ErrorCode::network,
                  fmt::format("{} cannot be downloaded in parts: the server gives the part from byte {} on without the "
                              "ETag of the whole",
                              in_quotes(item.name), at));
    }
    std::optional<std::uint64_t> bytes = parse_decimal(response.headers.find("content-length"));
    if (!is_whole) {
      const auto range = parse_content_range(response.headers.find("content-range"));
      if (response.status != 206 || !range || range->first != at) {
        throw Error(ErrorCode::network, fmt::format("{} cannot be downloaded in parts: the server answers {} to a "
                                                    "request for bytes from {} on",
                                                    in_quotes(item.name), response.status, at));
      }
      bytes = range->size;
    }
    if (item.bytes && bytes && *bytes != *item.bytes) {
      throw Error(ErrorCode::network, fmt::format("{} has {} bytes on the server instead of {}", in_quotes(item.name),
                                                  *bytes, *item.bytes));
    }
  }

  void finish(Fetched& fetched) {
    const DownloadItem& item = fetched.item;
    const std::string problem = item.problem_of ? item.problem_of(fetched.file.part_path()) : std::string();
    if (!problem.empty()) {
      fetched.file.discard();
      throw Error(ErrorCode::network, fmt::format("the download of {} is damaged: {}; it is removed, try again",
                                                  in_quotes(item.name), problem));
    }
    fetched.file.finish();
  }

  void take_back(Fetched& fetched, std::uint64_t bytes) {
    fetched.done -= bytes;
    done_ -= bytes;
    fetched.file.discard();
  }

  void pause(std::chrono::milliseconds delay) const {
    constexpr std::chrono::milliseconds step{50};
    for (; delay.count() > 0; delay -= std::min(step, delay)) {
      if (is_stopped_) throw Stopped{};
      wait_for(std::min(step, delay), client_.options().cancellation);
    }
  }

  void show(const Fetched* fetched, bool is_certain) {
    if (!options_.on_progress) return;
    constexpr std::chrono::milliseconds interval{100};
    const std::unique_lock held(progress_mutex_, std::try_to_lock);
    if (!held.owns_lock()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!is_certain && now - shown_ < interval) return;
    shown_ = now;
    DownloadProgress progress{.file = {}, .key = {}, .bytes = total_, .done = done_};
    if (fetched != nullptr) {
      progress.file = fetched->item.name;
      progress.key = fetched->item.key;
      progress.file_bytes = fetched->item.bytes.value_or(0);
      progress.file_done = fetched->done;
    }
    options_.on_progress(progress);
  }

  Client& client_;
  const DownloadOptions& options_;
  std::map<std::string, std::unique_ptr<Fetched>> fetched_;
  std::vector<Piece> pieces_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<std::uint64_t> total_ = 0, done_ = 0, received_ = 0, resumed_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::mutex progress_mutex_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace

DownloadResult download(Client& client, const fs::path& folder, std::span<const DownloadItem> items,
                        const DownloadOptions& options) {
  return Downloads(client, options).run(folder, items);
}

}  // namespace gpux::registry
