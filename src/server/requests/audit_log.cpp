#include "server/requests/audit_log.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/utf8_prefix.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

std::string now_text() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(milliseconds / 1000)),
                     milliseconds % 1000);
}

UniqueFd open_file(const std::filesystem::path& file) {
  UniqueFd descriptor(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR));
  if (descriptor.get() < 0) throw_file_error("open", file, errno);
  return descriptor;
}

// Names and values of what is known.
std::vector<log::Field> fields_of(const AuditEntry& entry) {
  std::vector<log::Field> fields;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) fields.push_back({name, std::string(utf8_prefix(value, max_audit_text_bytes))});
  };
  add("action", entry.action);
  add("model", entry.model);
  add("target", entry.target);
  add("digest", entry.digest);
  add("key", entry.caller.key);
  add("address", entry.caller.address);
  add("request", entry.caller.request_id);
  add("result", entry.result);
  add("reason", entry.reason);
  return fields;
}

}  // namespace

std::string audit_line(const AuditEntry& entry, std::string_view time) {
  std::string line = R"({"time":)";
  append_json_string(line, time);
  for (const log::Field& field : fields_of(entry)) {
    line += fmt::format(R"(,"{}":)", field.name);
    append_json_string(line, field.value);
  }
  return line + '}';
}

AuditLog::AuditLog(std::filesystem::path file) : file_(std::move(file)), descriptor_(open_file(file_)) {}

// Under the mutex.
void AuditLog::append(std::string line) {
  line += '\n';
  if (is_cut_) line.insert(line.begin(), '\n');
  ssize_t written = -1;
  do {
    written = ::write(descriptor_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) {
    is_cut_ = false;
    missing_ = 0;
    ++counts_.written;
    return;
  }
  if (written > 0) is_cut_ = true;
  const int problem = written < 0 ? errno : ENOSPC;
  ++counts_.failed;
  ++missing_;
  // With the line: it is on record nowhere else.
  log::error("the audit log '{}' cannot be written ({}): {}", file_.string(), std::generic_category().message(problem),
             line);
  throw Error(ErrorCode::storage, "the audit log cannot be written");
}

void AuditLog::require_writable() {
  if (file_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (missing_ == 0) return;
  std::string line = R"({"time":)";
  append_json_string(line, now_text());
  line += fmt::format(R"(,"action":"audit_resumed","lost":{}}})", missing_);
  try {
    append(std::move(line));
  } catch (const Error&) {
    --missing_;  // not a change
    throw Error(ErrorCode::storage, "the audit log cannot be written: until it can, no models are changed");
  }
}

void AuditLog::write(const AuditEntry& entry) {
  if (file_.empty()) {
    log::write(log::Level::info, "audit", fields_of(entry));
    const std::lock_guard lock(mutex_);
    ++counts_.written;
    return;
  }
  std::string line = audit_line(entry, now_text());
  const std::lock_guard lock(mutex_);
  append(std::move(line));
}

void AuditLog::write_refused(AuditEntry entry) {
  constexpr std::uint64_t max_lines = 60;
  constexpr std::chrono::seconds period{60};
  {
    const Bucket::Clock::time_point now = Bucket::Clock::now();
    const std::lock_guard lock(mutex_);
    if (refused_.taken_at(now, max_lines, period) + 1 > static_cast<double>(max_lines)) return;
    refused_.take(1, now, max_lines, period);
  }
  entry.result = "refused";
  try {
    write(entry);
  } catch (const Error&) {  // the log has it
    return;
  }
}

bool AuditLog::reopen() {
  if (file_.empty()) return true;
  try {
    UniqueFd descriptor = open_file(file_);
    const std::lock_guard lock(mutex_);
    descriptor_ = std::move(descriptor);
    is_cut_ = false;
    return true;
  } catch (const Error& error) {
    log::error("the audit log stays as it was: {}", error.message());
    return false;
  }
}

AuditCounts AuditLog::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

AuditedChange::AuditedChange(std::shared_ptr<AuditLog> log, AuditEntry entry)
    : log_(std::move(log)), entry_(std::move(entry)) {
  log_->require_writable();
}

AuditedChange::~AuditedChange() {
  if (has_ended_) return;
  entry_.result = "cancelled";
  try {
    log_->write(entry_);
  } catch (const std::exception&) {  // the log has it
    return;
  }
}

std::optional<Error> AuditedChange::end(const std::optional<Error>& error, std::string digest) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_ended_, true)) return error;
  entry_.digest = std::move(digest);
  // A load goes on beyond the time of its request.
  const bool is_late = error && error->code() == ErrorCode::deadline_exceeded;
  entry_.result = is_late ? "unfinished" : error ? "failed" : "succeeded";
  if (error) entry_.reason = error->message();
  try {
    log_->write(entry_);
    return error;
  } catch (const Error& failure) {
    if (error) return error;
    return Error(failure.code(), failure.message() + ": the models were changed as requested, and no record says so");
  }
}

}  // namespace gpux::server
