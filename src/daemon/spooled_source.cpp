#include "daemon/spooled_source.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"

namespace gpux::daemon {
namespace {

using namespace std::chrono_literals;

// A file that was worked off goes once it has so much.
constexpr std::uint64_t removed_from = std::uint64_t{1} << 20;

}  // namespace

void SpooledSource::run(const std::stop_token& stop) {
  load();
  if (!spool_) {
    // Numbers of files that were there before are never used again.
    spool_ = std::make_unique<Spool>(around().state_folder / (declared().name + ".journal"), position().generation + 1);
    has_spool_ = true;
  }
  const std::stop_callback wake_both(stop, [this] {
    accept_waker_.wake();
    waker().wake();
  });
  std::thread reader([&] { read(stop); });
  while (!stop.stop_requested()) {
    try {
      accept(stop);
    } catch (const std::exception& error) {
      wait_for(error.what());
      for (int i = 0; i < 10 && !stop.stop_requested(); ++i) accept_waker_.sleep(500ms);
    }
  }
  reader.join();
}

void SpooledSource::read(const std::stop_token& stop) {
  std::string told;
  while (!stop.stop_requested()) {
    try {
      read_on(stop);
    } catch (const std::exception& error) {
      if (told != error.what()) log::warning("{} waits: {}", declared().name, told = error.what());
      waker().sleep(1s);
    }
  }
  try {
    if (descriptor() >= 0) save(true);
  } catch (const std::exception& error) {
    log::warning("{}: {}", declared().name, error.what());
  }
}

void SpooledSource::open(std::uint64_t number, std::uint64_t offset) {
  UniqueFd file(::open(spool_->file(number).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw_file_error("open", spool_->file(number), errno);
  ReadPosition position = this->position();
  if (position.generation != number) position = {.generation = number, .inode = 0, .offset = offset, .before = {}};
  begin(std::move(file), position);
}

void SpooledSource::look_meanwhile() {
  set_end(read_offset() + spool_->bytes_from(position().generation, read_offset()));
}

void SpooledSource::read_on(const std::stop_token& stop) {
  if (descriptor() < 0) {
    const std::uint64_t number = std::max(spool_->first(), position().generation);
    open(number, 0);
    // A process that was killed may have left what was worked off.
    while (spool_->first() < number) spool_->remove(spool_->first());
  }
  while (!stop.stop_requested()) {
    const std::uint64_t number = position().generation, end = spool_->size(number);
    look_meanwhile();
    if (!pump(stop, end)) return;
    save(false);
    const bool is_last = number == spool_->last();
    if (is_last && end >= removed_from && read_offset() >= end) {
      spool_->begin_another();
    } else if (is_last) {
      waker().sleep(200ms);
    } else if (read_offset() >= spool_->size(number)) {
      if (!settle(stop)) return;
      open(number + 1, 0);
      spool_->remove(number);
    }
  }
}

std::vector<std::string> SpooledSource::keep(std::span<const std::string_view> lines) {
  std::vector<std::string> positions;
  for (const Spool::Place& place : spool_->append(lines)) {
    positions.push_back(fmt::format("{}:{}", place.number, place.offset));
  }
  waker().wake();
  return positions;
}

bool SpooledSource::is_full() const {
  const ReadPosition at = position();
  return spool_->bytes_from(at.generation, at.offset) >= around().limits.journal_bytes;
}

void SpooledSource::fill(SourceStatus& status) const {
  LineSource::fill(status);
  if (!has_spool_) return;
  const ReadPosition at = position();
  status.waiting_bytes = spool_->bytes_from(at.generation, at.offset);
}

}  // namespace gpux::daemon
