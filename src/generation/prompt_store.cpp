#include "generation/prompt_store.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include "base/caught_error.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

// What waits for the disk at the same time, and a file at most.
constexpr std::size_t max_pending = 2;
constexpr std::uint64_t max_pending_bytes = std::uint64_t{512} << 20;
// Of one file, and of all.
constexpr std::size_t blocks_ahead = 4, all_blocks_ahead = 16;
// Reading fewer tokens is not worth the wait.
constexpr std::size_t least_read_tokens = 64;
// How long the last writes may take.
constexpr std::chrono::seconds end_patience{5};

bool read_fully(int descriptor, std::span<std::byte> bytes, std::uint64_t position) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    position += static_cast<std::uint64_t>(count);
  }
  return true;
}

std::string content_hash(std::string_view scope, std::span<const std::uint32_t> tokens) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(scope)));
  hash.update(std::as_bytes(tokens));
  return hash.hex();
}

}  // namespace

class PromptStore::Reading {
 public:
  Reading(std::shared_ptr<const File> file, std::size_t known, std::size_t end) : file_(std::move(file)), end_(end) {
    for (const TokenBlock& block : blocks_of(file_->prompt.layout, file_->prompt.tokens.size())) {
      if (block.first >= end) break;
      blocks_.push_back(block);
      if (block.first + block.tokens <= known) next_ = blocks_.size();
    }
  }

 private:
  friend class PromptStore;

  [[nodiscard]] bool is_read() const noexcept { return next_ == blocks_.size(); }

  std::shared_ptr<const File> file_;
  std::size_t end_;
  std::vector<TokenBlock> blocks_;
  PromptFolder::OpenFile open_;  // of the thread that reads
  // Under the store's mutex.
  std::size_t next_ = 0;
  std::deque<Block> ready_;
};

PromptStore::PromptStore(const Options& options, std::function<void()> on_block)
    : options_(options), on_block_(std::move(on_block)), folder_(options.folder), secret_(folder_.secret()) {
  refresh();
  reader_ = start_thread<std::jthread>([this](const std::stop_token& stop) { read_blocks(stop); });
  writer_ = start_thread<std::jthread>([this](const std::stop_token& stop) { write_drafts(stop); });
}

PromptStore::~PromptStore() {
  reader_.request_stop();
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, end_patience, [&] { return pending_.empty(); });
  end_of_writes_.request_stop();
}

std::string PromptStore::scope_of(std::string_view scope) const {
  return hmac_sha256_of(secret_, scope);
}

std::vector<StoredBeginning> PromptStore::beginnings() const {
  std::vector<StoredBeginning> all;
  for (const auto& file : files_) all.push_back({file->prompt.scope, file->prompt.tokens});
  return all;
}

void PromptStore::ignore_damaged(const std::string& name, std::string_view reason) const {
  log::warning("'{}' is damaged, and is removed: {}", (folder_.path() / name).string(), reason);
  folder_.remove(name);
}

// Null: it is not of this model, or cannot be read.
std::shared_ptr<const PromptStore::File> PromptStore::read_head_of(const std::string& name) const {
  const PromptFolder::OpenFile open = folder_.open(name);
  if (!open.descriptor) return nullptr;
  std::vector<std::byte> head(std::min<std::uint64_t>(fixed_head_bytes, open.bytes));
  if (!read_fully(open.descriptor.get(), head, 0)) return nullptr;
  const HeadExtent extent = head_extent(head, open.bytes);
  if (extent.kind == HeadExtent::Kind::other) {
    log::info("'{}' is not used: it has another format", (folder_.path() / name).string());
    return nullptr;
  }
  if (extent.kind == HeadExtent::Kind::damaged) {
    ignore_damaged(name, "its size does not fit its beginning");
    return nullptr;
  }
  head.resize(extent.bytes);
  if (!read_fully(open.descriptor.get(), head, 0)) return nullptr;
  std::optional<StoredPrompt> prompt = read_head(head);
  if (!prompt) {
    ignore_damaged(name, "its beginning has another checksum");
    return nullptr;
  }
  if (prompt->identity != options_.identity || prompt->layout != options_.layout) return nullptr;
  return std::make_shared<const File>(File{.name = name, .prompt = *std::move(prompt)});
}

// Lists the folder: other processes add files and remove them.
void PromptStore::refresh() {
  std::vector<std::shared_ptr<const File>> known;
  {
    const std::lock_guard lock(mutex_);
    has_to_refresh_ = false;
    known = files_;
  }
  const std::int64_t stamp = folder_.stamp();
  if (stamp == stamp_) return;
  std::vector<std::shared_ptr<const File>> found;
  std::shared_ptr<const File> latest;
  std::int64_t last_use = 0;
  for (const KeptFile& file : folder_.files()) {
    if (!is_name_of(file.name, options_.identity)) continue;
    const auto old = std::ranges::find(known, file.name, [](const auto& one) { return one->name; });
    if (std::shared_ptr<const File> one = old != known.end() ? *old : read_head_of(file.name)) {
      if (std::exchange(last_use, std::max(last_use, file.last_use)) < file.last_use) latest = one;
      found.push_back(std::move(one));
    }
  }
  const std::lock_guard lock(mutex_);
  // One that was written meanwhile.
  for (const auto& file : files_) {
    const auto is_it = [&](const auto& one) { return one->name == file->name; };
    if (std::ranges::none_of(known, is_it) && std::ranges::none_of(found, is_it)) found.push_back(file);
  }
  files_ = std::move(found);
  latest_ = std::move(latest);
  // What comes in the same tick of the file system's clock leaves the same stamp.
  constexpr std::chrono::milliseconds tick{20};
  const auto age = std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(stamp);
  stamp_ = age < tick ? 0 : stamp;
}

void PromptStore::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const auto& file) { return file->name == name; });
}

std::shared_ptr<PromptStore::Reading> PromptStore::read(std::string_view scope, std::span<const std::uint32_t> prompt,
                                                        std::size_t known,
                                                        const std::function<std::size_t(std::size_t)>& end_of) {
  if (prompt.size() < known + least_read_tokens) return nullptr;
  const std::lock_guard lock(mutex_);
  has_to_refresh_ = true;
  changed_.notify_all();
  const std::optional<StoredMatch> match = longest_stored(beginnings(), scope, prompt);
  const std::size_t end = match ? end_of(match->tokens) : 0;
  if (!match || end < known + least_read_tokens) {
    counts_.misses += prompt.size() >= known + least_stored_tokens ? 1 : 0;
    return nullptr;
  }
  auto reading = std::make_shared<Reading>(files_[match->index], known, end);
  readings_.emplace_back(reading);
  ++counts_.hits;
  changed_.notify_all();
  return reading;
}

std::optional<PromptStore::Latest> PromptStore::read_latest(std::size_t max_tokens) {
  const std::lock_guard lock(mutex_);
  if (!latest_) return std::nullopt;
  const std::vector<std::uint32_t>& all = latest_->prompt.tokens;
  const std::size_t end = std::min(all.size(), max_tokens) / 2 * 2;
  if (end == 0) return std::nullopt;
  Latest latest{.scope = latest_->prompt.scope,
                .tokens = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(end)},
                .reading = std::make_shared<Reading>(latest_, 0, end)};
  readings_.emplace_back(latest.reading);
  changed_.notify_all();
  return latest;
}

PromptStore::Taken PromptStore::take(Reading& reading) {
  const std::lock_guard lock(mutex_);
  Taken taken;
  if (!reading.ready_.empty()) {
    taken.block = std::move(reading.ready_.front());
    reading.ready_.pop_front();
    taken.end = std::min(taken.block->first + taken.block->tokens, reading.end_);
  }
  // There may be room for another block: also where a reading was given up with those that it had.
  changed_.notify_all();
  taken.is_over = reading.is_read() && reading.ready_.empty();
  return taken;
}

// The reading that has waited longest and has room for a block; null: none has. Those that nobody waits for are gone.
std::shared_ptr<PromptStore::Reading> PromptStore::next_reading() {
  std::size_t ready = 0;
  for (const std::weak_ptr<Reading>& one : readings_) {
    if (const std::shared_ptr<Reading> reading = one.lock()) ready += reading->ready_.size();
  }
  if (ready >= all_blocks_ahead) return nullptr;
  for (std::size_t left = readings_.size(); left != 0; --left) {
    std::shared_ptr<Reading> reading = readings_.front().lock();
    readings_.pop_front();
    if (!reading || reading->is_read()) continue;
    readings_.emplace_back(reading);
    if (reading->ready_.size() < blocks_ahead) return reading;
  }
  return nullptr;
}

void PromptStore::read_blocks(const std::stop_token& stop) {
  for (;;) {
    std::shared_ptr<Reading> reading;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return (reading = next_reading()) != nullptr || has_to_refresh_; });
      if (stop.stop_requested()) return;
    }
    if (reading) {
      std::optional<Block> block = read_block(*reading);
      {
        const std::lock_guard lock(mutex_);
        if (block) {
          reading->ready_.push_back(*std::move(block));
          ++reading->next_;
        } else {
          reading->next_ = reading->blocks_.size();
        }
      }
      on_block_();
      continue;
    }
    try {
      refresh();
    } catch (...) {
      log::info("'{}' is not listed: {}", folder_.path().string(), caught_error().message());
    }
  }
}

// Empty where it cannot be used: the file is not used again then.
std::optional<PromptStore::Block> PromptStore::read_block(Reading& reading) {
  const File& file = *reading.file_;
  const TokenBlock& place = reading.blocks_[reading.next_];
  const CacheLayout& layout = file.prompt.layout;
  try {
    if (!reading.open_.descriptor) {
      reading.open_ = folder_.open(file.name);
      if (!reading.open_.descriptor) {
        log::info("'{}' was removed meanwhile", (folder_.path() / file.name).string());
        forget(file.name);
        return std::nullopt;
      }
      folder_.touch(file.name);
    }
    Block block{.first = place.first, .tokens = place.tokens, .rows = RowMemory(place.bytes)};
    const std::uint64_t position = head_bytes(layout, file.prompt.tokens.size()) + place.offset;
    const bool is_read = read_fully(reading.open_.descriptor.get(), block.rows.bytes(), position);
    const std::uint64_t checksum = file.prompt.checksums[place.first / tokens_per_block(layout)];
    if (is_read && checksum_of(block.rows.bytes()) == checksum) return block;
    ignore_damaged(file.name, "its rows have another checksum");
  } catch (...) {
    log::info("'{}' is not read: {}", (folder_.path() / file.name).string(), caught_error().message());
  }
  forget(file.name);
  return std::nullopt;
}

std::size_t PromptStore::tokens_to_store(std::string_view scope, std::span<const std::uint32_t> prompt,
                                         std::size_t shared) const {
  if (prompt.size() < least_stored_tokens) return 0;
  const std::lock_guard lock(mutex_);
  std::vector<StoredBeginning> all = beginnings();
  for (const auto& [pending_scope, tokens] : pending_) all.push_back({pending_scope, tokens});
  const std::optional<StoredMatch> match = longest_stored(all, scope, prompt);
  const std::size_t wanted =
      generation::tokens_to_store({.tokens = prompt.size(),
                                   .shared = shared,
                                   .stored = match ? match->tokens : 0,
                                   .goes_on = match && match->tokens == all[match->index].tokens.size()});
  const std::uint64_t most = std::min(options_.max_bytes, max_pending_bytes) / options_.layout.bytes_per_token();
  std::size_t allowed = std::min<std::size_t>(wanted, most) / 2 * 2;
  // With the head.
  while (allowed >= least_stored_tokens && file_bytes(options_.layout, allowed) > options_.max_bytes) allowed -= 2;
  // Without what does not fit, it may have nothing new.
  const std::size_t known = match ? std::min(match->tokens, allowed) : 0;
  return allowed >= std::max(known + 2, least_stored_tokens) ? allowed : 0;
}

std::optional<PromptStore::Draft> PromptStore::begin_write(std::string_view scope,
                                                           std::span<const std::uint32_t> tokens,
                                                           Clock::time_point deadline) {
  const std::uint64_t bytes = tokens.size() * options_.layout.bytes_per_token();
  Draft draft{.scope = std::string(scope), .tokens = {tokens.begin(), tokens.end()}, .rows = {}};
  {
    std::unique_lock lock(mutex_);
    const bool has_room = changed_.wait_until(
        lock, deadline, [&] { return pending_.size() < max_pending && pending_bytes_ + bytes <= max_pending_bytes; });
    if (!has_room) {
      ++counts_.skipped_writes;
      return std::nullopt;
    }
    pending_.emplace_back(draft.scope, draft.tokens);
    pending_bytes_ += bytes;
  }
  try {
    draft.rows = RowMemory(bytes);
    return draft;
  } catch (const std::bad_alloc&) {
    drop(draft);
    return std::nullopt;
  }
}

void PromptStore::give_back(const Draft& draft) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [&](const auto& one) { return one.first == draft.scope && one.second == draft.tokens; });
  pending_bytes_ -= draft.tokens.size() * options_.layout.bytes_per_token();
  changed_.notify_all();
}

void PromptStore::drop(const Draft& draft) noexcept {
  give_back(draft);
  const std::lock_guard lock(mutex_);
  ++counts_.skipped_writes;
}

void PromptStore::write(Draft draft) {
  const std::lock_guard lock(mutex_);
  drafts_.push_back(std::move(draft));
  changed_.notify_all();
}

void PromptStore::write_drafts(const std::stop_token& stop) {
  for (;;) {
    Draft draft;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return !drafts_.empty() || is_ending_; });
      if (drafts_.empty()) return;
      draft = std::move(drafts_.front());
      drafts_.pop_front();
    }
    try {
      write_file(draft, end_of_writes_.get_token());
    } catch (...) {
      const Error error = caught_error();
      const std::lock_guard lock(mutex_);
      ++counts_.skipped_writes;
      // Once: the next ones would say the same.
      if (!std::exchange(has_warned_, true)) {
        log::warning("keys and values of prompts are not stored, and texts go on without: {}", error.message());
      }
    }
    give_back(draft);
  }
}

void PromptStore::write_file(const Draft& draft, const std::stop_token& stop) {
  StoredPrompt prompt{.identity = options_.identity,
                      .scope = draft.scope,
                      .layout = options_.layout,
                      .tokens = draft.tokens,
                      .checksums = {}};
  std::vector<std::span<const std::byte>> parts(1);
  for (const TokenBlock& block : blocks_of(options_.layout, draft.tokens.size())) {
    parts.push_back(draft.rows.bytes().subspan(block.offset, block.bytes));
    prompt.checksums.push_back(checksum_of(parts.back()));
  }
  const std::vector<std::byte> head = head_of(prompt);
  parts.front() = head;
  const std::string name = prompt_file_name(options_.identity, content_hash(draft.scope, draft.tokens));
  const std::uint64_t bytes = file_bytes(options_.layout, draft.tokens.size());
  std::vector<std::string> replaced;
  {
    const std::lock_guard lock(mutex_);
    for (const std::size_t index : replaced_by(beginnings(), draft.scope, draft.tokens)) {
      replaced.push_back(files_[index]->name);
    }
  }
  const auto is_replaced = [&](const std::string& one) {
    return one == name || std::ranges::find(replaced, one) != replaced.end();
  };
  std::vector<KeptFile> others = folder_.files();
  std::erase_if(others, [&](const KeptFile& file) { return is_replaced(file.name); });
  if (stop.stop_requested()) others.clear();
  for (const KeptFile& file : files_to_remove(std::move(others), options_.max_bytes, bytes)) {
    folder_.remove(file.name);
    forget(file.name);
  }
  if (!folder_.write(name, parts, stop)) {
    const std::lock_guard lock(mutex_);
    ++counts_.skipped_writes;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.written_files;
    has_warned_ = false;
    std::erase_if(files_, [&](const auto& file) { return is_replaced(file->name); });
    files_.push_back(std::make_shared<const File>(File{.name = name, .prompt = std::move(prompt)}));
  }
  for (const std::string& old : replaced) folder_.remove(old);
  log::info("{} tokens of a prompt are stored in '{}'", draft.tokens.size(), (folder_.path() / name).string());
}

PromptStoreStatistics PromptStore::statistics() const {
  const std::lock_guard lock(mutex_);
  PromptStoreStatistics all = counts_;
  all.files = files_.size();
  for (const auto& file : files_) all.bytes += file_bytes(file->prompt.layout, file->prompt.tokens.size());
  return all;
}

}  // namespace gpux::generation
