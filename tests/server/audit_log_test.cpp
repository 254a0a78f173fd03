#include "server/requests/audit_log.h"

#include <filesystem>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "base/files.h"
#include "base/spelling.h"
#include "base/temporary_folder.h"

namespace gpux::server {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

AuditEntry entry(const std::string& action) {
  AuditEntry made;
  made.action = action;
  made.model = "digits";
  made.caller.key = "alice";
  made.caller.address = "127.0.0.1";
  made.caller.request_id = "r1";
  return made;
}

std::vector<Json> lines_of(const std::filesystem::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

TEST(AuditLog, LinesHaveWhatIsKnown) {
  AuditEntry one = entry("copy");
  one.target = "digits\n\"2\"";
  one.result = "succeeded";
  EXPECT_EQ(audit_line(one, "2026-01-31T12:00:00.000Z"),
            R"({"time":"2026-01-31T12:00:00.000Z","action":"copy","model":"digits","target":"digits\n\"2\"",)"
            R"("key":"alice","address":"127.0.0.1","request":"r1","result":"succeeded"})");
}

TEST(AuditLog, LinesAreBounded) {
  AuditEntry one = entry("load");
  one.model = std::string(299, 'm') + "é";
  one.reason = std::string(100'000, 'r');
  const Json line = Json::parse(audit_line(one, "t"));
  EXPECT_EQ(line.at("model"), std::string(299, 'm'));
  EXPECT_EQ(line.at("reason").get<std::string>().size(), max_audit_text_bytes);
}

TEST(AuditLog, HasALineForWhateverIsThrown) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "audit.jsonl";
  const auto log = std::make_shared<AuditLog>(file);
  AuditedChange broken(log, entry("load")), late(log, entry("load"));
  EXPECT_THROW(audited(broken, [] { throw std::runtime_error("why"); }), std::runtime_error);
  EXPECT_THROW(audited(late, [] { throw Error(ErrorCode::deadline_exceeded, "its load continues"); }), Error);
  const std::vector<Json> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("result"), "failed");
  EXPECT_EQ(lines[1].at("result"), "unfinished");
}

TEST(AuditLog, HasALineForEachEndOfAChange) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "audit.jsonl";
  const auto log = std::make_shared<AuditLog>(file);

  struct stat facts {};

  ASSERT_EQ(::stat(file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  EXPECT_FALSE(AuditedChange(log, entry("load")).end(std::nullopt, "abc").has_value());
  const Error error(ErrorCode::not_found, "no model");
  const auto told = AuditedChange(log, entry("unload")).end(error);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->message(), "no model");
  { const AuditedChange left(log, entry("pull")); }
  {
    AuditedChange twice(log, entry("delete"));
    (void)twice.end(std::nullopt);
    (void)twice.end(error);
  }
  log->write_refused(entry("push"));
  const std::vector<Json> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].at("result"), "succeeded");
  EXPECT_EQ(lines[0].at("digest"), "abc");
  EXPECT_EQ(lines[1].at("result"), "failed");
  EXPECT_EQ(lines[1].at("reason"), "no model");
  EXPECT_EQ(lines[2].at("result"), "cancelled");
  EXPECT_EQ(lines[3].at("result"), "succeeded");
  EXPECT_EQ(lines[4].at("result"), "refused");
  EXPECT_EQ(log->counts().written, 5U);
}

TEST(AuditLog, RefusalsDoNotFillTheFile) {
  const test::TemporaryFolder folder;
  AuditLog log(folder.path() / "audit");
  for (int i = 0; i < 1000; ++i) log.write_refused(entry("load"));
  EXPECT_LT(lines_of(folder.path() / "audit").size(), 70U);
}

TEST(AuditLog, IsOpenedAgainAfterItWasRenamed) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "audit";
  AuditLog log(file);
  log.write(entry("load"));
  std::filesystem::rename(file, folder.path() / "audit.1");
  log.write(entry("unload"));
  EXPECT_TRUE(log.reopen());
  log.write(entry("pull"));
  EXPECT_EQ(lines_of(folder.path() / "audit.1").size(), 2U);
  EXPECT_EQ(lines_of(file).size(), 1U);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_FALSE(log.reopen());
  log.write(entry("push"));
}

TEST(AuditLog, WithoutItNothingIsChanged) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const auto log = std::make_shared<AuditLog>("/dev/full");
  {
    // That it cannot be written is found out by the first change, which has happened.
    AuditedChange first(log, entry("load"));
    const auto told = first.end(std::nullopt);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code(), ErrorCode::storage);
    EXPECT_THAT(told->message(), HasSubstr("changed as requested"));
  }
  try {
    const AuditedChange second(log, entry("load"));
    ADD_FAILURE() << "a change began";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_THAT(error.message(), HasSubstr("no models are changed"));
  }
  EXPECT_EQ(log->counts().failed, 2U);
  EXPECT_THROW(AuditLog("/none/audit"), Error);
}

}  // namespace
}  // namespace gpux::server
