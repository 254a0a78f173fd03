#include "base/log.h"

#include <atomic>
#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/utf8.h"

namespace gpux::log {
namespace {

std::atomic<Level> threshold{Level::off};
std::atomic<Format> line_format{Format::text};

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
  logger().set_pattern(format == Format::json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%v})"
                                              : "gpux: %l: %v");
}

bool enabled(Level level) noexcept {
  return level >= threshold.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  const std::string line = one_line(message);
  logger().log(to_spdlog(level), line_format == Format::json ? json_string(line) : line);
}

}  // namespace gpux::log
