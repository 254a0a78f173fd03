#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "daemon/file_source.h"
#include "daemon/spool.h"

namespace gpux::daemon {

/// Source of events that are sent only once: each is written to a spool on arrival and read from there.
class SpooledSource : public LineSource {
 public:
  using LineSource::LineSource;

 protected:
  /// Accepts events until `stop`. An exception is reported, and it is called again later.
  virtual void accept(const std::stop_token& stop) = 0;

  /// Sleeps of accept(); woken where it is to stop.
  [[nodiscard]] Waker& accept_waker() noexcept { return accept_waker_; }

  /// The lines are safe on disk when it returns; gives their positions. Error storage: none is.
  std::vector<std::string> keep(std::span<const std::string_view> lines);
  /// Whether more waits than may.
  [[nodiscard]] bool is_full() const;

  void fill(SourceStatus& status) const override;

 private:
  void run(const std::stop_token& stop) final;
  void look_meanwhile() final;
  void read(const std::stop_token& stop);
  void read_on(const std::stop_token& stop);
  void open(std::uint64_t number, std::uint64_t offset);

  Waker accept_waker_;
  std::unique_ptr<Spool> spool_;  // set before the threads that use it begin, and kept
  std::atomic<bool> has_spool_ = false;
};

}  // namespace gpux::daemon
