#include "embedding/embed_all.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::embedding {
namespace {

/// Texts taken in order, vectors given away in order. The source has a lock of its own: one that waits for its next
/// text, as on a terminal, keeps no vector back.
class Line {
 public:
  Line(const Embedder& embedder, const EmbedOptions& options, const TextSource& source, std::uint64_t window,
       const VectorSink& sink, std::uint64_t before)
      : embedder_(embedder), options_(options), source_(source), sink_(sink), window_(window), before_(before) {}

  void work() {
    std::string text;
    while (const auto index = take(text)) {
      Result result;
      try {
        result.vector = embedder_.embed(text, options_);
      } catch (const Error& error) {
        result.failure = std::make_exception_ptr(error.within(fmt::format("text {}", before_ + *index + 1)));
      } catch (...) {
        result.failure = std::current_exception();
      }
      result.text = std::move(text);
      give(*index, std::move(result));
    }
  }

  /// Behind the last worker's end.
  std::uint64_t finish() const {
    if (failure_) std::rethrow_exception(failure_);
    return given_;
  }

 private:
  struct Result {
    std::string text;
    std::vector<float> vector;
    std::exception_ptr failure;
  };

  std::optional<std::uint64_t> take(std::string& text) {
    const std::scoped_lock source_lock(source_mutex_);
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return ended_ || taken_ - given_ < window_; });
      if (ended_) return std::nullopt;
    }
    Result failed;
    try {
      if (source_(text)) return taken_++;
    } catch (...) {
      failed.failure = std::current_exception();
    }
    if (failed.failure) give(taken_++, std::move(failed));
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    return std::nullopt;
  }

  void give(std::uint64_t index, Result result) {
    const std::scoped_lock lock(mutex_);
    if (result.failure) ended_ = true;
    waiting_.emplace(index, std::move(result));
    while (!failure_ && !waiting_.empty() && waiting_.begin()->first == given_) {
      const Result next = std::move(waiting_.extract(waiting_.begin()).mapped());
      failure_ = next.failure;
      if (failure_) break;
      try {
        sink_(next.text, next.vector);
        ++given_;
      } catch (...) {
        failure_ = std::current_exception();
        ended_ = true;
      }
    }
    room_.notify_all();
  }

  const Embedder& embedder_;
  const EmbedOptions& options_;
  const TextSource& source_;
  const VectorSink& sink_;
  const std::uint64_t window_, before_;

  std::mutex source_mutex_;
  std::uint64_t taken_ = 0;  // under source_mutex_

  std::mutex mutex_;
  std::condition_variable room_;
  std::map<std::uint64_t, Result> waiting_;
  std::uint64_t given_ = 0;
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::uint64_t embed_all(const Embedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const VectorSink& sink, std::uint64_t before) {
  constexpr std::uint64_t texts_a_thread = 16;
  embedder.encoder().check(options);
  Line line(embedder, options, source, texts_a_thread * std::max(threads, 1U), sink, before);
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([&] { line.work(); });
    line.work();
  }
  return line.finish();
}

}  // namespace gpux::embedding
