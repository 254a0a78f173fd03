#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "daemon/completed_prefix.h"
#include "daemon/line_reader.h"
#include "daemon/position_file.h"
#include "daemon/source.h"

namespace gpux::daemon {

/// Lines of files that are read one after another, each to its end; where they end is kept in a position file. The
/// position of an event is "GENERATION:BYTE".
class LineSource : public Source {
 public:
  using Source::Source;

 protected:
  void fill(SourceStatus& status) const override;

  /// Reads what was kept; to be called before anything else, again where it throws (storage).
  void load();
  /// The position that was kept; a copy. From any thread.
  [[nodiscard]] ReadPosition position() const;
  /// From now on it is this file, from there on, and that is safe on disk. Nothing may be in flight. Where it throws
  /// (storage) nothing has changed.
  void begin(UniqueFd file, ReadPosition position);
  /// Lets go of the file.
  void close_file();

  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }

  /// Gives the pipeline all lines that end before `until`; false where it was stopped.
  bool pump(const std::stop_token& stop, std::uint64_t until = UINT64_MAX);
  /// Reads as pump() does, with the text that has no line feed at the end of a file that will not grow.
  bool pump_rest(const std::stop_token& stop);
  /// Waits until nothing is in flight; false where it was stopped.
  bool settle(const std::stop_token& stop);
  /// Keeps the position, if it has changed and that is due.
  void save(bool now);

  /// Keeps the position, where that can be done, and lets go of the file. Nothing may be in flight.
  void save_and_close();

  /// For fill(): where what can be read ends, counted as the reader counts.
  void set_end(std::uint64_t end) { end_ = end; }

  /// Offset of the reader in the file.
  [[nodiscard]] std::uint64_t read_offset() const { return reader_ ? reader_->offset() : 0; }

 private:
  bool put(const FoundLine& line, const std::stop_token& stop);
  void ended(std::uint64_t generation, std::uint64_t number, Outcome outcome);

  [[nodiscard]] std::filesystem::path position_file() const;

  bool is_loaded_ = false;
  UniqueFd file_;
  std::unique_ptr<LineReader> reader_;
  std::chrono::steady_clock::time_point next_save_;
  std::atomic<std::uint64_t> end_ = 0, read_ = 0;

  mutable std::mutex mutex_;
  ReadPosition position_;  // as it is now; its offset is that of done_
  ReadPosition saved_;
  CompletedPrefix done_;
  std::uint64_t lines_ = 0, line_bytes_ = 0;  // read, for the mean
};

/// JSON lines that others append to a file, which may be renamed and begun anew (logrotate), or cut off and begun anew.
class FileSource final : public LineSource {
 public:
  using LineSource::LineSource;

 private:
  void run(const std::stop_token& stop) override;
  void follow(const std::stop_token& stop);
  void look_meanwhile() override;
  /// Opens the next file; false if there is none yet.
  bool open_next(bool after_this);
  bool open_file(const std::string& name, std::uint64_t inode);
  /// Called at the end of the file: checks whether the file was truncated or rotated, and continues in the new file.
  void look_around(const std::stop_token& stop);

  ReadPosition seen_;  // what stood before a place that was read: it is the same file as long as it does
};

/// Up to 64 bytes before that place of the file, in hexadecimal digits.
std::string bytes_before(int descriptor, std::uint64_t offset);

}  // namespace gpux::daemon
