#include "server/requests/access.h"

#include <utility>

#include "base/log.h"

namespace gpux::server {
namespace {

constexpr std::chrono::seconds look_interval{1};

}  // namespace

Access::Access(AccessRules rules) : rules_(std::make_shared<const AccessRules>(std::move(rules))) {}

Access::Access(std::vector<std::filesystem::path> files, Read read, Changed changed)
    : files_(std::move(files)),
      read_(std::move(read)),
      changed_(std::move(changed)),
      stamps_(stamps()),
      looked_(Clock::now()),
      rules_(std::make_shared<const AccessRules>(read_(nullptr))) {}

std::vector<FileStamp> Access::stamps() const {
  std::vector<FileStamp> all;
  for (const std::filesystem::path& path : files_) all.push_back(stamp_of(path));
  return all;
}

std::shared_ptr<const AccessRules> Access::rules(Clock::time_point now) {
  if (!files_.empty()) {
    // Requests do not wait for a disk: while one of them looks, the others have the rules of before.
    const std::unique_lock looking(reading_, std::try_to_lock);
    if (looking && now - looked_ >= look_interval) {
      looked_ = now;
      if (stamps() != stamps_) read_again(false);
    }
  }
  const std::lock_guard lock(mutex_);
  return rules_;
}

bool Access::reload() {
  const std::lock_guard looking(reading_);
  return read_ == nullptr || read_again(true);
}

AccessReloads Access::reloads() const {
  const std::lock_guard lock(mutex_);
  return reloads_;
}

// With the mutex of reading.
bool Access::read_again(bool is_asked) {
  // Of the state before it is read: what changes meanwhile is read once more.
  std::vector<FileStamp> present = stamps();
  try {
    // Nobody else replaces them.
    auto rules = std::make_shared<const AccessRules>(read_(rules_.get()));
    if (changed_) changed_(*rules);
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
    ++reloads_.succeeded;
  } catch (const std::exception& error) {
    // Tried again at the next look: a file that could not be read for a moment may be one that takes a key away.
    stamps_.clear();
    if (is_asked || problem_ != error.what()) {
      {
        const std::lock_guard lock(mutex_);
        ++reloads_.failed;
      }
      log::warning("keeping the last valid API keys and limits: {}", error.what());
    }
    problem_ = error.what();
    return false;
  }
  stamps_ = std::move(present);
  problem_.clear();
  log::info("the API keys and limits were read again: {} names of keys", rules_->keys.names().size());
  return true;
}

}  // namespace gpux::server
