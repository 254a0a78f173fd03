#include "cli/progress.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_streams.h"

namespace gpux::cli {
namespace {

std::string clock_text(std::chrono::seconds time) {
  const auto hours = time.count() / 3600, minutes = time.count() / 60 % 60, seconds = time.count() % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, seconds);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds);
}

}  // namespace

Progress::Progress(const Context& context, std::string what, std::function<std::optional<double>()> share)
    : what_(std::move(what)),
      share_(std::move(share)),
      is_shown_(!context.quiet && ::isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      drawn_(start_),
      share_at_start_(share_().value_or(0)) {}

Progress::~Progress() {
  if (!is_drawn_) return;
  write_to_standard_error("\r\033[K");
}

void Progress::show(std::uint64_t done) {
  constexpr auto interval = std::chrono::milliseconds(200);
  // Before the share has moved enough, what is left would jump about.
  constexpr double least_share = 0.001;
  const Clock::time_point now = Clock::now();
  if (!is_shown_ || now - drawn_ < interval) return;
  drawn_ = now;
  is_drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("{} {}, {:.1f}/s", done, what_, static_cast<double>(done) / seconds);
  if (const auto share = share_(); share && *share - share_at_start_ >= least_share) {
    const double left = seconds * (1 - *share) / (*share - share_at_start_);
    line += fmt::format(", {} left", clock_text(std::chrono::seconds(std::lround(left))));
  }
  write_to_standard_error(fmt::format("\r{}\033[K", line));
}

}  // namespace gpux::cli
