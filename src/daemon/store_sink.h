#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "daemon/sink.h"
#include "daemon/vector_folder.h"
#include "vector_store/vector_store.h"

namespace gpux::daemon {

/// Puts vectors into a collection: a point for each event, named by the event's hash, so that an event that is given
/// twice is one point. Events that were set aside are files of a folder.
class StoreSink final : public EventSink {
 public:
  /// Errors as open_store().
  explicit StoreSink(const vector_store::StoreUrl& url);

  /// Makes the collection where it does not exist, and checks that it takes the vectors of this model. From any thread.
  /// Errors as VectorStore::create().
  void prepare(const vector_store::CollectionFacts& facts);

  /// Of events that are set aside; it has to live as long as write() and has() are called. While neither is called.
  void set_folder(VectorFolder& folder) { folder_ = &folder; }

  /// False also where the store cannot be asked: the event is embedded and written once more, as the same point.
  [[nodiscard]] bool has(const std::string& hash) const override;
  void write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) override;

  /// A server that hangs is waited for `time` longer, unless the thread is joined before: then has() is false and
  /// write() fails at once, for good.
  [[nodiscard]] std::jthread give_up_after(std::chrono::milliseconds time);

 private:
  std::stop_source given_up_;
  VectorFolder* folder_ = nullptr;
  // A database has a connection for those who ask, and one for the thread that writes; a file is one for both.
  const std::shared_ptr<vector_store::VectorStore> written_, asked_;
  mutable std::mutex mutex_;  // of `asked_`
  std::size_t writes_ = 0;
};

/// The point of an event. Its payload has the members of the event's .vec and timing files, without those that are
/// empty. Pure.
vector_store::Point point_of(const EmbeddedEvent& event);

}  // namespace gpux::daemon
