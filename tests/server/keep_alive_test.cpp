// Tests the durations of Ollama's keep_alive.
#include "server/protocols/ollama/keep_alive.h"

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using namespace std::chrono_literals;

TEST(KeepAlive, IsADurationAsGoWritesIt) {
  struct Case {
    const char* text;
    std::optional<KeepAlive> read;
  };

  const Case cases[] = {
      {"5m", 5min},
      {"1h30m", 90min},
      {"1.5s", 1500ms},
      {"+2h", 2h},
      {"250ms", 250ms},
      {"0", 0ms},
      {"0s", 0ms},
      {"-0s", 0ms},
      {"999us", 0ms},
      {"3\u00b5s", 0ms},
      {"-1m", KeepAlive::max()},
      {"-1s", KeepAlive::max()},
      {"99999999999h", KeepAlive::max()},
      {"", std::nullopt},
      {"-", std::nullopt},
      {"300", 300s},
      {"-1", KeepAlive::max()},
      {"-0", 0ms},
      {"5m3", std::nullopt},
      {"m", std::nullopt},
      {"5 m", std::nullopt},
      {"1.2.3s", std::nullopt},
      {".s", std::nullopt},
      {"5mm", std::nullopt},
      {"5days", std::nullopt},
      {"soon", std::nullopt},
      {"1e3s", std::nullopt},
      {"nans", std::nullopt},
  };
  for (const Case& one : cases) EXPECT_EQ(keep_alive_from(one.text), one.read) << one.text;
}

}  // namespace
}  // namespace gpux::server
