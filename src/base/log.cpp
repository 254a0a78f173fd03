#include "base/log.h"

#include <atomic>
#include <memory>

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/recent_log.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::log {
namespace {

std::atomic<Level> threshold{Level::off};
std::atomic<Format> line_format{Format::text};

NameOfSubject& subject_names_of_process() {
  static NameOfSubject name_of;
  return name_of;
}

spdlog::logger& logger() {
  static spdlog::logger instance("gpux", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::shared_ptr<spdlog::sinks::rotating_file_sink_mt>& copy() {
  static std::shared_ptr<spdlog::sinks::rotating_file_sink_mt> sink;
  return sink;
}

// Once: a full disk would otherwise be reported with every line.
void report_lost_copy(const std::string& reason) noexcept {
  static std::atomic_flag is_reported;
  if (is_reported.test_and_set()) return;
  const std::string line = "gpux: warning: the log file cannot be written, its lines are lost: " + reason + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

std::string json_string(std::string_view line) {
  std::string quoted = "\"";
  for (const char c : line) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

void start(Level level, Format format) {
  threshold = level;
  line_format = format;
  logger().set_level(to_spdlog(level));
  // A message that cannot be written is dropped: there is no better place to report that.
  logger().set_error_handler([](const std::string& /*problem*/) {});
  logger().set_pattern(format == Format::json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%v})"
                                              : "gpux: %l: %v");
}

void lower_to(Level level) noexcept {
  if (level >= threshold) return;
  threshold = level;
  logger().set_level(to_spdlog(level));
}

void copy_to(const std::filesystem::path& file) {
  constexpr std::size_t max_bytes = std::size_t{10} << 20;
  try {
    copy() = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file.string(), max_bytes, 1);
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorCode::storage, error.what());
  }
  copy()->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l: %v");
  logger().sinks().push_back(copy());
  logger().set_error_handler(report_lost_copy);
  logger().flush_on(spdlog::level::trace);
}

void note(std::string_view line) {
  if (copy() == nullptr) return;
  try {
    copy()->log(spdlog::details::log_msg("gpux", spdlog::level::info, one_line(line)));
    copy()->flush();
  } catch (const std::exception& error) {
    report_lost_copy(error.what());
  }
}

bool enabled(Level level) noexcept {
  return level >= threshold.load(std::memory_order_relaxed);
}

void name_subjects_by(NameOfSubject name_of) {
  subject_names_of_process() = std::move(name_of);
}

const NameOfSubject& subject_names() {
  return subject_names_of_process();
}

void warning(const Message& message) {
  write(Level::warning, to_string(message, subject_names()));
}

void write(Level level, std::string_view message, std::span<const Field> fields) {
  if (!enabled(level)) return;
  add_recent(level, message, fields);
  const bool json = line_format == Format::json;
  std::string line = one_line(message);
  if (json) line = json_string(line);
  for (const Field& field : fields) {
    const std::string value = one_line(field.value);
    line +=
        json ? fmt::format(R"(,"{}":{})", field.name, json_string(value)) : fmt::format(" {}={}", field.name, value);
  }
  logger().log(to_spdlog(level), line);
}

}  // namespace gpux::log
