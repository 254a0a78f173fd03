#include "daemon/source.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "daemon/bus_source.h"
#include "daemon/directory_source.h"
#include "daemon/file_source.h"
#include "daemon/socket_source.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using namespace std::chrono_literals;

std::string kind_name(DeclaredSource::Kind kind) {
  switch (kind) {
    case DeclaredSource::Kind::directory:
      return "directory";
    case DeclaredSource::Kind::file:
      return "file";
    case DeclaredSource::Kind::socket:
      return "socket";
    case DeclaredSource::Kind::bus:
      return "bus";
  }
  return {};
}

}  // namespace

Waker::Waker() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw_file_error("create", "an event descriptor", errno);
}

void Waker::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(event_.get(), &one, sizeof one);
}

void Waker::clear() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto ignored = ::read(event_.get(), &count, sizeof count);
}

void Waker::sleep(std::chrono::milliseconds time, std::initializer_list<int> descriptors) {
  std::vector<pollfd> waited{{.fd = event_.get(), .events = POLLIN, .revents = 0}};
  for (const int descriptor : descriptors) {
    if (descriptor >= 0) waited.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  ::poll(waited.data(), waited.size(), static_cast<int>(time.count()));
  clear();
}

Source::Source(DeclaredSource declared, SourceSurroundings surroundings)
    : declared_(std::move(declared)), surroundings_(std::move(surroundings)) {}

void Source::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run_until_stopped(stop); });
}

void Source::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  waker_.wake();
  thread_.join();
}

void Source::run_until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      run(stop);
    } catch (const std::exception& error) {
      wait_for(error.what());
      for (int i = 0; i < 10 && !stop.stop_requested(); ++i) waker_.sleep(500ms);
    }
  }
}

bool Source::give(WaitingEvent event, const std::stop_token& stop) {
  for (;;) {
    switch (surroundings_.pipeline.put(event, stop, 200ms)) {
      case EventPipeline::Put::taken:
        ++taken_;
        return true;
      case EventPipeline::Put::stopped:
        return false;
      case EventPipeline::Put::full:
        look_meanwhile();
    }
  }
}

void Source::wait_for(const std::string& what) {
  {
    const std::scoped_lock lock(state_mutex_);
    if (what == waits_for_) return;
    waits_for_ = what;
  }
  if (what.empty()) {
    log::info("{} is watched", declared_.name);
  } else {
    log::warning("{} waits: {}", declared_.name, what);
  }
}

void Source::count(Outcome outcome) {
  if (outcome == Outcome::written) ++written_;
  if (outcome == Outcome::known) ++known_;
  if (outcome == Outcome::refused) ++refused_;
  if (outcome == Outcome::again) --taken_;
}

SourceStatus Source::status() const {
  SourceStatus status;
  status.name = declared_.name;
  status.kind = kind_name(declared_.kind);
  {
    const std::scoped_lock lock(state_mutex_);
    status.state = waits_for_.empty() ? "watching" : "waiting: " + waits_for_;
  }
  status.taken = taken_;
  status.written = written_;
  status.known = known_;
  status.refused = refused_;
  status.lost = lost_;
  fill(status);
  return status;
}

std::shared_ptr<Source> make_source(const DeclaredSource& declared, const SourceSurroundings& surroundings) {
  switch (declared.kind) {
    case DeclaredSource::Kind::directory:
      return std::make_shared<DirectorySource>(declared, surroundings);
    case DeclaredSource::Kind::file:
      return std::make_shared<FileSource>(declared, surroundings);
    case DeclaredSource::Kind::socket:
      return std::make_shared<SocketSource>(declared, surroundings);
    case DeclaredSource::Kind::bus:
      return std::make_shared<BusSource>(declared, surroundings);
  }
  return nullptr;
}

}  // namespace gpux::daemon
