#include "daemon/status.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpux::daemon {
namespace {

TEST(DaemonStatus, TellsItsHealthByItsProblems) {
  struct Row {
    const char *sink, *model, *state_file;
    int http_status;
    const char* json;
  };

  const Row rows[] = {
      {"", "", "", 200, R"({"status": "ok", "problems": {}})"},
      {"", "", "line 3", 200, R"({"status": "degraded", "problems": {"state_file": "line 3"}})"},
      {"disk full", "", "", 503, R"({"status": "failing", "problems": {"sink": "disk full"}})"},
      {"", "no device", "line 3", 503,
       R"({"status": "failing", "problems": {"model": "no device", "state_file": "line 3"}})"},
  };
  for (const Row& row : rows) {
    DaemonStatus status;
    status.sink_problem = row.sink;
    status.model_problem = row.model;
    status.state_file_problem = row.state_file;
    const HealthAnswer answer = health_of(status);
    EXPECT_EQ(answer.http_status, row.http_status);
    EXPECT_EQ(nlohmann::json::parse(answer.json), nlohmann::json::parse(row.json));
  }
}

}  // namespace
}  // namespace gpux::daemon
