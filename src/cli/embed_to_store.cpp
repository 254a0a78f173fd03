#include "cli/embed_to_store.h"

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/sha256.h"
#include "cli/collection_facts.h"
#include "cli/progress.h"
#include "embedding/embed_all.h"
#include "vector_store/vector_store.h"

namespace gpux::cli {
namespace {

using PayloadJson = nlohmann::json;

constexpr std::size_t points_at_once = 1000;

/// The payloads of texts that are being embedded, in order.
class WaitingPayloads {
 public:
  void push(PayloadJson payload) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(payload));
  }

  PayloadJson pop() {
    const std::scoped_lock lock(mutex_);
    PayloadJson first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::deque<PayloadJson> waiting_;
};

// By the model's other output, of the texts that have dense vectors already. `before`: texts that were stored earlier.
void add_sparse_vectors(const OpenEncoder& encoder, unsigned workers, std::uint64_t before,
                        std::vector<vector_store::Point>& points) {
  std::size_t read = 0, made = 0;
  const embedding::TextSource next = [&](std::string& text) {
    if (read == points.size()) return false;
    text = points[read++].text;
    return true;
  };
  const embedding::EmbeddingSink keep = [&](std::string_view /*text*/, const embedding::Embedding& embedding) {
    points[made++].sparse = {embedding.indices, embedding.values};
  };
  (void)embedding::embed_all(*encoder.embedder, sparse_options(encoder), next, workers, keep, before);
}

}  // namespace

std::string point_id(std::string_view text, const PayloadJson& payload) {
  const auto id = payload.find("id");
  const bool is_absent =
      id == payload.end() || id->is_null() || (id->is_string() && id->get_ref<const std::string&>().empty());
  if (is_absent) return sha256_of(text);
  // No text begins with a byte that UTF-8 does not have.
  return sha256_of(
      "\xff"
      "id " +
      id->dump());
}

void embed_to_store(const StoreTarget& target, const OpenEncoder& encoder, const embedding::Texts& texts,
                    const Context& context) {
  const auto store = vector_store::open_store(target.url);
  store->create(facts_of(encoder, target.is_hybrid));
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  progress.emplace(context, "texts", texts.share_read);
  WaitingPayloads payloads;
  std::vector<vector_store::Point> points;
  std::uint64_t done = 0;
  const embedding::TextSource next = [&](std::string& text) {
    if (!texts.next(text)) return false;
    payloads.push(texts.fields());
    return true;
  };
  const auto put = [&] {
    if (target.is_hybrid) add_sparse_vectors(encoder, target.workers, done - points.size(), points);
    store->upsert(points);
    points.clear();
  };
  const auto keep = [&](std::string_view text, std::span<const float> vector) {
    PayloadJson payload = payloads.pop();
    points.push_back({.id = point_id(text, payload),
                      .vector = {vector.begin(), vector.end()},
                      .sparse = {},
                      .text = std::string(text),
                      .payload = std::move(payload)});
    progress->show(++done);
    if (points.size() == points_at_once) put();
  };
  const std::uint64_t count = embedding::embed_all(*encoder.embedder, encoder.options, next, target.workers, keep);
  put();
  progress.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  store->finish();
  say(context, fmt::format("embedded {} in {:.2f} s: {:.1f} texts/s; '{}' has {}", counted(count, "text"), seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9), store->shown(),
                           counted(store->count(), "vector")));
}

}  // namespace gpux::cli
