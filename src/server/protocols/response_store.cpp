#include "server/protocols/response_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpux/error.h"

namespace gpux::server {
namespace {

// Nodes of the maps, and what the allocator adds; the same for each item.
constexpr std::size_t bytes_of_record = 512, bytes_of_item = 256;

// What a response takes without its items.
std::uint64_t own_bytes(const StoredResponse& response) {
  return bytes_of_record + response.id.size() + response.json.size() +
         response.items.size() * sizeof(response.items.front()) +
         (response.items.size() - response.input_items) * bytes_of_item;
}

std::shared_ptr<MemoryBudget> budget_of(const ResponseStoreOptions& options, const MemoryBudget* memory) {
  constexpr std::uint64_t share_of_memory = 8;
  const std::uint64_t limit =
      memory == nullptr ? options.max_bytes : std::min(options.max_bytes, memory->limit_bytes() / share_of_memory);
  return std::make_shared<MemoryBudget>(limit);
}

}  // namespace

ConversationItem::ConversationItem(std::string own_id, std::string own_json, ChatMessage own_message, MemoryShare held)
    : id(std::move(own_id)), json(std::move(own_json)), message(std::move(own_message)), held_(std::move(held)) {
  if (!held_.grow(bytes())) {
    throw Error(ErrorCode::resource_exhausted, "there is no memory left for the items of the conversation: try later");
  }
}

std::size_t ConversationItem::bytes() const noexcept {
  std::size_t bytes = sizeof(ConversationItem) + id.size() + json.size() + message.role.size() +
                      message.content.size() + message.reasoning.size() + message.tool_call_id.size() +
                      message.name.size();
  for (const ToolCall& call : message.tool_calls) {
    bytes += sizeof(ToolCall) + call.id.size() + call.name.size() + call.arguments.size();
  }
  return bytes;
}

ResponseStore::ResponseStore(const ResponseStoreOptions& options, std::shared_ptr<MemoryBudget> memory, CallAt call_at)
    : options_(options),
      memory_(std::move(memory)),
      budget_(budget_of(options_, memory_.get())),
      call_at_(std::move(call_at)) {}

// Of the store's limit. What was taken for items before it fails is theirs, and goes with them.
bool ResponseStore::take(Record& record) {
  if (record.kept.bytes() == 0 && !record.kept.grow(record.held.bytes())) return false;
  return std::ranges::all_of(record.response->items, [&](const std::shared_ptr<const ConversationItem>& item) {
    if (item->kept_.bytes() != 0) return true;
    item->kept_ = MemoryShare(budget_);
    return item->kept_.grow(item->bytes());
  });
}

// Drops the oldest response of the owner that has the most; false where there is none.
bool ResponseStore::make_room() {
  if (records_.empty()) return false;
  const ResponseOwner owner =
      std::ranges::max_element(counts_, {}, [](const auto& count) { return count.second; })->first;
  drop(std::ranges::find(records_, owner, &Record::owner));
  return true;
}

void ResponseStore::drop(Records::iterator record) {
  if (--counts_[record->owner] == 0) counts_.erase(record->owner);
  by_id_.erase(record->response->id);
  records_.erase(record);
}

void ResponseStore::drop_old(Clock::time_point now) {
  while (!records_.empty() && records_.front().expires <= now) drop(records_.begin());
}

// One call at a time waits, for the oldest response.
void ResponseStore::forget_in_time() {
  if (!call_at_ || records_.empty() || std::exchange(is_called_later_, true)) return;
  call_at_(records_.front().expires, [this] {
    const std::lock_guard lock(mutex_);
    is_called_later_ = false;
    drop_old(Clock::now());
    forget_in_time();
  });
}

// Those that are gone: now and then, so that it costs little for each response.
void ResponseStore::forget_items() {
  constexpr std::size_t few = 64;
  if (items_.size() < 2 * items_after_forgetting_ + few) return;
  std::erase_if(items_, [](const auto& entry) { return entry.second.item.expired(); });
  items_after_forgetting_ = items_.size();
}

ResponseStore::Records::iterator ResponseStore::find_record(const ResponseOwner& owner, const std::string& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() || found->second->owner != owner ? records_.end() : found->second;
}

bool ResponseStore::keep(const ResponseOwner& owner, StoredResponse response, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  forget_items();
  if (options_.max_responses == 0 || options_.time_to_live.count() == 0) return false;
  std::uint64_t bytes = own_bytes(response);
  const std::uint64_t own = bytes;
  for (const auto& item : response.items) bytes += item->bytes();
  // It would push out all the others, and find no room all the same.
  if (bytes > budget_->limit_bytes()) return false;
  Record record{.owner = owner,
                .expires = now + options_.time_to_live,
                .response = std::make_shared<const StoredResponse>(std::move(response)),
                .held = MemoryShare(memory_),
                .kept = MemoryShare(budget_)};
  // Memory that requests need now is not taken from kept responses.
  if (!record.held.grow(own)) return false;
  while (records_.size() >= options_.max_responses) (void)make_room();
  while (!take(record)) {
    if (!make_room()) return false;
  }
  const StoredResponse& kept = *record.response;
  for (std::size_t i = kept.input_items; i < kept.items.size(); ++i) {
    items_.insert_or_assign(kept.items[i]->id, OwnedItem{.owner = owner, .item = kept.items[i]});
  }
  ++counts_[owner];
  records_.push_back(std::move(record));
  by_id_[kept.id] = std::prev(records_.end());
  forget_in_time();
  return true;
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const ResponseOwner& owner, const std::string& id,
                                                          Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  const auto record = find_record(owner, id);
  return record == records_.end() ? nullptr : record->response;
}

std::shared_ptr<const ConversationItem> ResponseStore::find_item(const ResponseOwner& owner, const std::string& id,
                                                                 Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  const auto found = items_.find(id);
  return found == items_.end() || found->second.owner != owner ? nullptr : found->second.item.lock();
}

bool ResponseStore::erase(const ResponseOwner& owner, const std::string& id, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  const auto record = find_record(owner, id);
  if (record == records_.end()) return false;
  drop(record);
  return true;
}

std::size_t ResponseStore::count() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace gpux::server
