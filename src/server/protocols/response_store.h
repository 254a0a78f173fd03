#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/memory_budget.h"
#include "gpux/chat.h"

/// Answers that clients may retrieve, or continue: OpenAI's responses.
namespace gpux::server {

/// An item of a conversation: a message, the reasoning of one, a call of a function, or what it returned.
class ConversationItem {
 public:
  /// `held`: of the memory for requests; grown by what the item takes. Error resource_exhausted where that has no room.
  ConversationItem(std::string id, std::string json, ChatMessage message, MemoryShare held);

  const std::string id;       ///< "msg_…", "rs_…", "fc_…", or as the client wrote it
  const std::string json;     ///< as clients read it; empty for items that are not kept
  const ChatMessage message;  ///< what it adds to the conversation: append_item()

  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  friend class ResponseStore;

  MemoryShare held_;
  mutable MemoryShare kept_;  // of the store's own limit; under the store's mutex
};

using ConversationItems = std::vector<std::shared_ptr<const ConversationItem>>;

/// Name of the API key that a request came with; empty where it came with none.
using ResponseOwner = std::string;

/// A finished response. Immutable.
struct StoredResponse {
  std::string id;
  std::string json;             ///< as it was answered
  ConversationItems items;      ///< what it answers, with what earlier responses say, and behind these its output
  std::size_t input_items = 0;  ///< number of the items that it answers
};

struct ResponseStoreOptions {
  std::size_t max_responses = 1024;  ///< 0: none is kept
  std::uint64_t max_bytes = std::uint64_t{64} << 20;
  std::chrono::milliseconds time_to_live = std::chrono::hours{24};  ///< 0: none is kept
};

/// Keeps responses in memory, within a number, a size and a time. The oldest responses make room for new ones, those of
/// the owner with the most first. An item that several responses have is there once. All members from any thread.
class ResponseStore {
 public:
  using Clock = std::chrono::steady_clock;

  /// Calls the function at that time, on any thread; not after the store is gone.
  using CallAt = std::function<void(Clock::time_point when, std::function<void()> call)>;

  /// `memory`: that of requests, of which a kept response takes its share, and of which the store takes an eighth at
  /// most; null: no limit. `call_at`: by which old responses are forgotten in time; null: they are with the next call.
  ResponseStore(const ResponseStoreOptions& options, std::shared_ptr<MemoryBudget> memory, CallAt call_at = nullptr);

  /// False, and not kept, where it is larger than the limit, or the memory for requests is short.
  bool keep(const ResponseOwner& owner, StoredResponse response, Clock::time_point now = Clock::now());

  /// Null where there is none of that id, or it is another owner's or too old.
  [[nodiscard]] std::shared_ptr<const StoredResponse> find(const ResponseOwner& owner, const std::string& id,
                                                           Clock::time_point now = Clock::now());

  /// An item of the output of a response that is kept, or of one that such a response continues; null as for find().
  [[nodiscard]] std::shared_ptr<const ConversationItem> find_item(const ResponseOwner& owner, const std::string& id,
                                                                  Clock::time_point now = Clock::now());

  /// Whether there was one.
  bool erase(const ResponseOwner& owner, const std::string& id, Clock::time_point now = Clock::now());

  [[nodiscard]] std::size_t count() const;

  /// Of all responses and their items.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return budget_->held_bytes(); }

  /// For requests that make items.
  [[nodiscard]] const std::shared_ptr<MemoryBudget>& memory() const noexcept { return memory_; }

 private:
  struct Record {
    ResponseOwner owner;
    Clock::time_point expires;
    std::shared_ptr<const StoredResponse> response;
    MemoryShare held, kept;
  };

  using Records = std::list<Record>;

  struct OwnedItem {
    ResponseOwner owner;
    std::weak_ptr<const ConversationItem> item;
  };

  bool take(Record& record);
  bool make_room();
  void drop(Records::iterator record);
  void drop_old(Clock::time_point now);
  void forget_in_time();
  void forget_items();
  [[nodiscard]] Records::iterator find_record(const ResponseOwner& owner, const std::string& id);

  const ResponseStoreOptions options_;
  std::shared_ptr<MemoryBudget> memory_;
  std::shared_ptr<MemoryBudget> budget_;  // of the store alone
  const CallAt call_at_;
  mutable std::mutex mutex_;
  Records records_;  // the oldest first
  std::unordered_map<std::string, Records::iterator> by_id_;
  std::unordered_map<std::string, OwnedItem> items_;  // of outputs
  std::size_t items_after_forgetting_ = 0;
  bool is_called_later_ = false;                 // forget_in_time() is to be called
  std::map<ResponseOwner, std::size_t> counts_;  // of responses
};

}  // namespace gpux::server
