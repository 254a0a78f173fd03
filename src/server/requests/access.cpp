#include "server/requests/access.h"

#include <utility>

#include <sys/stat.h>

#include "base/log.h"

namespace gpux::server {
namespace {

constexpr std::chrono::seconds look_interval{1};

}  // namespace

Access::Access(AccessRules rules) : rules_(std::make_shared<const AccessRules>(std::move(rules))) {}

Access::Access(std::vector<std::filesystem::path> files, Read read)
    : files_(std::move(files)),
      read_(std::move(read)),
      stamps_(stamps()),
      looked_(Clock::now()),
      rules_(std::make_shared<const AccessRules>(read_(nullptr))) {}

std::vector<Access::Stamp> Access::stamps() const {
  std::vector<Stamp> all;
  for (const std::filesystem::path& path : files_) {
    struct stat facts {};

    Stamp& stamp = all.emplace_back();
    if (::stat(path.c_str(), &facts) != 0) continue;
    stamp = {.seconds = facts.st_mtim.tv_sec,
             .nanoseconds = facts.st_mtim.tv_nsec,
             .bytes = static_cast<std::uint64_t>(facts.st_size),
             .file = facts.st_ino};
  }
  return all;
}

std::shared_ptr<const AccessRules> Access::rules(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (files_.empty() || now - looked_ < look_interval) return rules_;
  looked_ = now;
  if (stamps() != stamps_) read_again();
  return rules_;
}

bool Access::reload() {
  const std::lock_guard lock(mutex_);
  return read_ == nullptr || read_again();
}

AccessReloads Access::reloads() const {
  const std::lock_guard lock(mutex_);
  return reloads_;
}

// Of the state before it is read: what changes meanwhile is read once more.
bool Access::read_again() {
  stamps_ = stamps();
  try {
    rules_ = std::make_shared<const AccessRules>(read_(rules_.get()));
  } catch (const std::exception& error) {
    ++reloads_.failed;
    log::warning("keeping the last valid API keys and limits: {}", error.what());
    return false;
  }
  ++reloads_.succeeded;
  log::info("the API keys and limits were read again: {} names of keys", rules_->keys.names().size());
  return true;
}

}  // namespace gpux::server
