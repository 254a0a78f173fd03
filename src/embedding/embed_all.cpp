#include "embedding/embed_all.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/start_thread.h"
#include "embedding/ready_texts.h"
#include "embedding/timed.h"
#include "gpux/error.h"

namespace gpux::embedding {
namespace {

/// Fewer are embedded before it is known whether they may share runs.
constexpr std::size_t texts_worth_trying = 32;
/// Texts that may be on their way, for each thread.
constexpr std::uint64_t texts_per_thread = 256;
/// Tokenized at a time by one thread.
constexpr std::size_t texts_per_turn = 32;

/// Texts taken in order, vectors given away in order. One thread reads, so that
/// a source that lets wait, as a terminal does, keeps no vector back; the
/// workers tokenize what there is and run it, the oldest text first. What they
/// do under the lock depends on the texts that they take, not on those that
/// wait; tokenizing, runs and the sink are outside.
class Line {
 public:
  Line(const TextEmbedder& embedder, const EmbedOptions& options, const TextSource& source, unsigned threads,
       const EmbeddingSink& sink, std::uint64_t before, EmbedTimes* times)
      : embedder_(embedder),
        options_(options),
        source_(source),
        sink_(sink),
        times_(times),
        threads_(threads),
        window_(texts_per_thread * threads),
        before_(before) {}

  void read() {
    for (std::uint64_t index = 0;; ++index) {
      RawText raw{.index = index, .text = {}};
      try {
        const Timed timed(times_, &EmbedTimes::read);
        if (!source_(raw.text)) break;
      } catch (...) {
        give(index, {.text = {}, .embedding = {}, .failure = std::current_exception()});
        break;
      }
      if (!take_in(std::move(raw))) break;
    }
    const TimedLock lock(mutex_, times_);
    all_read_ = true;
    work_.notify_all();
  }

  void work() {
    for (;;) {
      std::vector<RawText> raw;
      std::vector<ReadyText> group;
      if (!take(raw, group)) return;
      if (!raw.empty()) {
        prepare(std::move(raw));
      } else if (group.size() == 1 || !run_together(group)) {
        for (ReadyText& text : group) run_alone(std::move(text));
      }
    }
  }

  /// Behind the last worker's end.
  std::uint64_t finish() const {
    if (failure_) std::rethrow_exception(failure_);
    return given_;
  }

 private:
  struct RawText {
    std::uint64_t index = 0;
    std::string text;
  };

  struct Result {
    std::string text;
    Embedding embedding;
    std::exception_ptr failure;
  };

  // Waits until the next text may be read, too; false where none is needed.
  bool take_in(RawText raw) {
    TimedLock lock(mutex_, times_);
    const std::uint64_t next = raw.index + 1;
    if (!failed_at_) raw_.push_back(std::move(raw));
    work_.notify_one();
    if (next - given_ < window_) return !failed_at_;
    // Not for each text that is given away: waking a thread takes longer than reading some.
    read_on_at_ = next - window_ + window_ / 4;
    lock.wait(room_, [&] { return failed_at_ || given_ >= *read_on_at_; });
    read_on_at_.reset();
    return !failed_at_;
  }

  // Work for one thread: texts to tokenize, as long as few are ready, or those
  // of a run. False where nothing is left.
  bool take(std::vector<RawText>& raw, std::vector<ReadyText>& group) {
    TimedLock lock(mutex_, times_);
    for (;;) {
      if (!raw_.empty() && ready_.size() < window_ / 2) {
        take_raw(raw);
        return true;
      }
      TextSharing batching{.limits = {.max_rows = 1}, .padding = nullptr};
      if (ready_.size() > 1) {
        const bool worth_trying = ready_.size() >= texts_worth_trying;
        lock.unlock();
        batching = embedder_.batching(worth_trying);
        lock.lock();
      }
      group = ready_.take(batching);
      if (!group.empty()) return true;
      if (!raw_.empty()) continue;
      if (preparing_ == 0 && (all_read_ || failed_at_)) return false;
      lock.wait_for_change(work_);
    }
  }

  void take_raw(std::vector<RawText>& raw) {
    // Not all of few: the other threads would have nothing to do.
    const std::size_t count = std::clamp<std::size_t>(raw_.size() / threads_, 1, texts_per_turn);
    while (raw.size() < count) {
      raw.push_back(std::move(raw_.front()));
      raw_.pop_front();
    }
    ++preparing_;
  }

  void prepare(std::vector<RawText> raw) {
    std::vector<ReadyText> prepared;
    prepared.reserve(raw.size());
    for (RawText& one : raw) {
      try {
        const Timed timed(times_, &EmbedTimes::prepare);
        PreparedText tokens = embedder_.encoder().prepare(one.text, options_);
        prepared.push_back({.index = one.index, .text = std::move(one.text), .prepared = std::move(tokens)});
      } catch (...) {
        fail(one.index, std::move(one.text), std::current_exception());
        break;
      }
    }
    const TimedLock lock(mutex_, times_);
    --preparing_;
    for (ReadyText& text : prepared) {
      if (!failed_at_ || text.index < *failed_at_) ready_.add(std::move(text));
    }
    work_.notify_all();
  }

  // False: nothing was given, and the texts will tell one by one what is wrong
  // with which.
  bool run_together(std::vector<ReadyText>& group) {
    std::vector<PreparedText> texts;
    texts.reserve(group.size());
    for (const ReadyText& text : group) texts.push_back(text.prepared);
    std::vector<Embedding> embeddings;
    try {
      const Timed timed(times_, &EmbedTimes::run);
      embeddings = embedder_.represent(texts, options_);
    } catch (...) {
      return false;
    }
    std::vector<std::pair<std::uint64_t, Result>> results;
    results.reserve(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      results.emplace_back(
          group[i].index,
          Result{.text = std::move(group[i].text), .embedding = std::move(embeddings[i]), .failure = nullptr});
    }
    give(std::move(results));
    return true;
  }

  void run_alone(ReadyText text) {
    try {
      Result result{.text = {}, .embedding = {}, .failure = nullptr};
      {
        const Timed timed(times_, &EmbedTimes::run);
        result.embedding = std::move(embedder_.represent(std::span(&text.prepared, 1), options_).front());
      }
      result.text = std::move(text.text);
      give(text.index, std::move(result));
    } catch (...) {
      fail(text.index, std::move(text.text), std::current_exception());
    }
  }

  void fail(std::uint64_t index, std::string text, std::exception_ptr failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      failure = std::make_exception_ptr(error.within(fmt::format("text {}", before_ + index + 1)));
    } catch (...) {
      failure = std::current_exception();
    }
    give(index, {.text = std::move(text), .embedding = {}, .failure = std::move(failure)});
  }

  void give(std::uint64_t index, Result result) {
    std::vector<std::pair<std::uint64_t, Result>> results;
    results.emplace_back(index, std::move(result));
    give(std::move(results));
  }

  // The thread that has the next text's result gives away all that follow it, too; others only leave theirs.
  void give(std::vector<std::pair<std::uint64_t, Result>> results) {
    TimedLock lock(mutex_, times_);
    for (auto& [index, result] : results) {
      if (result.failure) stop_at(index);
      const auto place = static_cast<std::size_t>(index - first_result_);
      if (results_.size() <= place) results_.resize(place + 1);
      results_[place] = std::move(result);
    }
    if (is_giving_) return;
    is_giving_ = true;
    for (std::vector<Result> next = next_results(); !next.empty() && !failure_; next = next_results()) {
      lock.unlock();
      std::uint64_t count = 0;
      const std::exception_ptr failure = give_away(next, count);
      lock.lock();
      given_ += count;
      if (failure) {
        failure_ = failure;
        stop_at(given_);
      }
      if (read_on_at_ && given_ >= *read_on_at_) room_.notify_one();
    }
    is_giving_ = false;
  }

  std::vector<Result> next_results() {
    constexpr std::size_t most = 64;  // then there is room for more texts
    std::vector<Result> next;
    while (next.size() < most && !results_.empty()) {
      std::optional<Result>& first = results_.front();
      if (!first) break;
      next.push_back(*std::move(first));
      results_.pop_front();
      ++first_result_;
    }
    return next;
  }

  std::exception_ptr give_away(const std::vector<Result>& results, std::uint64_t& count) const {
    for (const Result& result : results) {
      if (result.failure) return result.failure;
      try {
        const Timed timed(times_, &EmbedTimes::sink);
        sink_(result.text, result.embedding);
        ++count;
      } catch (...) {
        return std::current_exception();
      }
    }
    return nullptr;
  }

  // No text behind this one is needed.
  void stop_at(std::uint64_t index) {
    failed_at_ = std::min(index, failed_at_.value_or(index));
    while (!raw_.empty() && raw_.back().index > *failed_at_) raw_.pop_back();
    ready_.drop_behind(*failed_at_);
    work_.notify_all();
    room_.notify_all();
  }

  const TextEmbedder& embedder_;
  const EmbedOptions& options_;
  const TextSource& source_;
  const EmbeddingSink& sink_;
  EmbedTimes* const times_;
  const unsigned threads_;
  const std::uint64_t window_, before_;

  std::mutex mutex_;
  std::condition_variable room_, work_;
  std::deque<RawText> raw_;  // in order
  ReadyTexts ready_;
  std::size_t preparing_ = 0;                  // threads that tokenize
  std::deque<std::optional<Result>> results_;  // from first_result_ on
  std::uint64_t first_result_ = 0, given_ = 0;
  std::optional<std::uint64_t> read_on_at_;  // how many must be given away; empty: the reader does not wait
  bool all_read_ = false, is_giving_ = false;
  std::optional<std::uint64_t> failed_at_;  // no text behind it is needed
  std::exception_ptr failure_;
};

}  // namespace

std::uint64_t embed_all(const TextEmbedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const VectorSink& sink, std::uint64_t before) {
  const EmbeddingSink of_vectors = [&](std::string_view text, const Embedding& embedding) {
    sink(text, embedding.values);
  };
  EmbedOptions dense = options;
  dense.representation = Representation::dense;
  return embed_all(embedder, dense, source, threads, of_vectors, before);
}

std::uint64_t embed_all(const TextEmbedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const EmbeddingSink& sink, std::uint64_t before, EmbedTimes* times) {
  embedder.encoder().check(options);
  threads = std::max(threads, 1U);
  Line line(embedder, options, source, threads, sink, before, times);
  {
    const auto reader = start_thread<std::jthread>([&] { line.read(); });
    const std::vector<std::jthread> others = start_more_threads(threads - 1, [&] { line.work(); });
    line.work();
  }
  const std::uint64_t count = line.finish();
  if (times != nullptr) times->texts += count;
  return count;
}

}  // namespace gpux::embedding
