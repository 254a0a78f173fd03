#include "embedding/embed_all.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "runtime/scheduling/batch_plan.h"

namespace gpux::embedding {
namespace {

/// Fewer are embedded before it is known whether they may share runs.
constexpr std::size_t texts_worth_trying = 32;

/// Texts taken in order, vectors given away in order. One thread reads, so that a source that lets wait, as a terminal
/// does, keeps no vector back; the workers take what there is, the oldest text first.
class Line {
 public:
  Line(const Embedder& embedder, const EmbedOptions& options, const TextSource& source, std::uint64_t window,
       const EmbeddingSink& sink, std::uint64_t before)
      : embedder_(embedder), options_(options), source_(source), sink_(sink), window_(window), before_(before) {}

  void read() {
    std::string text;
    for (std::uint64_t index = 0; has_room(index); ++index) {
      Item item{.index = index, .text = {}, .prepared = {}, .key = {}};
      try {
        if (!source_(text)) break;
      } catch (...) {
        give(index, {.text = {}, .embedding = {}, .failure = std::current_exception()});
        break;
      }
      item.text = std::move(text);
      text.clear();
      try {
        item.prepared = embedder_.encoder().prepare(item.text, options_);
        item.key = std::to_string(item.prepared.length);
      } catch (...) {
        fail(std::move(item), std::current_exception());
        break;
      }
      const std::scoped_lock lock(mutex_);
      ready_.push_back(std::move(item));
      work_.notify_one();
    }
    const std::scoped_lock lock(mutex_);
    all_read_ = true;
    work_.notify_all();
  }

  void work() {
    for (std::vector<Item> group = take(); !group.empty(); group = take()) {
      if (group.size() > 1 && run_together(group)) continue;
      for (Item& item : group) run_alone(std::move(item));
    }
  }

  /// Behind the last worker's end.
  std::uint64_t finish() const {
    if (failure_) std::rethrow_exception(failure_);
    return given_;
  }

 private:
  struct Item {
    std::uint64_t index = 0;
    std::string text;
    PreparedText prepared;
    std::string key;  // those of one length have one
  };

  struct Result {
    std::string text;
    Embedding embedding;
    std::exception_ptr failure;
  };

  bool has_room(std::uint64_t index) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return failed_at_ || index - given_ < window_; });
    return !failed_at_;
  }

  // The oldest text, and those that may share its run; none where all are done, or what is left stands behind a text
  // that failed.
  std::vector<Item> take() {
    TextBatching batching{.limits = {.max_rows = 1}, .padding = nullptr};
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return !ready_.empty() || all_read_ || failed_at_; });
    if (ready_.size() > 1) {
      const bool worth_trying = ready_.size() >= texts_worth_trying;
      lock.unlock();
      batching = embedder_.batching(worth_trying);
      lock.lock();
    }
    if (failed_at_) std::erase_if(ready_, [&](const Item& item) { return item.index > *failed_at_; });
    if (ready_.empty()) return {};
    std::vector<runtime::WaitingRequest> waiting;
    const auto now = std::chrono::steady_clock::now();
    batching.limits.look_ahead = window_;
    std::vector<Shape> shapes;  // of all, before any is pointed to
    shapes.reserve(ready_.size());
    constexpr std::string_view any_length = "any";
    for (const Item& item : ready_) {
      shapes.push_back({static_cast<std::int64_t>(item.prepared.length)});
      waiting.push_back({.shape_key = batching.padding != nullptr ? any_length : std::string_view(item.key),
                         .rows = 1,
                         .arrived = now,
                         .row_shapes = std::span(&shapes.back(), 1)});
    }
    std::vector<Item> group;
    const std::vector<std::size_t> places = runtime::plan_batch(waiting, batching.limits, true, now).take;
    for (const std::size_t place : places) group.push_back(std::move(ready_[place]));
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(*place));
    }
    return group;
  }

  // False: nothing was given, and the texts will tell one by one what is wrong with which.
  bool run_together(std::vector<Item>& group) {
    std::vector<PreparedText> texts;
    for (const Item& item : group) texts.push_back(item.prepared);
    std::vector<Embedding> embeddings;
    try {
      embeddings = embedder_.represent(texts, options_);
    } catch (...) {
      return false;
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      give(group[i].index,
           {.text = std::move(group[i].text), .embedding = std::move(embeddings[i]), .failure = nullptr});
    }
    return true;
  }

  void run_alone(Item item) {
    try {
      Embedding embedding = std::move(embedder_.represent(std::span(&item.prepared, 1), options_).front());
      give(item.index, {.text = std::move(item.text), .embedding = std::move(embedding), .failure = nullptr});
    } catch (...) {
      fail(std::move(item), std::current_exception());
    }
  }

  void fail(Item item, std::exception_ptr failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      failure = std::make_exception_ptr(error.within(fmt::format("text {}", before_ + item.index + 1)));
    } catch (...) {
      failure = std::current_exception();
    }
    give(item.index, {.text = std::move(item.text), .embedding = {}, .failure = std::move(failure)});
  }

  void give(std::uint64_t index, Result result) {
    const std::scoped_lock lock(mutex_);
    if (result.failure) failed_at_ = std::min(index, failed_at_.value_or(index));
    waiting_.emplace(index, std::move(result));
    while (!failure_ && !waiting_.empty() && waiting_.begin()->first == given_) {
      const Result next = std::move(waiting_.extract(waiting_.begin()).mapped());
      failure_ = next.failure;
      if (failure_) break;
      try {
        sink_(next.text, next.embedding);
        ++given_;
      } catch (...) {
        failure_ = std::current_exception();
        failed_at_ = 0;
      }
    }
    room_.notify_all();
  }

  const Embedder& embedder_;
  const EmbedOptions& options_;
  const TextSource& source_;
  const EmbeddingSink& sink_;
  const std::uint64_t window_, before_;

  std::mutex mutex_;
  std::condition_variable room_, work_;
  std::deque<Item> ready_;  // in order
  std::map<std::uint64_t, Result> waiting_;
  std::uint64_t given_ = 0;
  bool all_read_ = false;
  std::optional<std::uint64_t> failed_at_;  // no text behind it is needed
  std::exception_ptr failure_;
};

}  // namespace

std::uint64_t embed_all(const Embedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const VectorSink& sink, std::uint64_t before) {
  const EmbeddingSink of_vectors = [&](std::string_view text, const Embedding& embedding) {
    sink(text, embedding.values);
  };
  EmbedOptions dense = options;
  dense.representation = Representation::dense;
  return embed_all(embedder, dense, source, threads, of_vectors, before);
}

std::uint64_t embed_all(const Embedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const EmbeddingSink& sink, std::uint64_t before) {
  constexpr std::uint64_t texts_a_thread = 256;
  embedder.encoder().check(options);
  Line line(embedder, options, source, texts_a_thread * std::max(threads, 1U), sink, before);
  {
    std::vector<std::jthread> others;
    others.emplace_back([&] { line.read(); });
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([&] { line.work(); });
    line.work();
  }
  return line.finish();
}

}  // namespace gpux::embedding
