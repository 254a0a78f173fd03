#include "server/protocols/ollama/status_lines.h"

#include <utility>

#include <fmt/format.h>

#include "server/protocols/error_answers.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

constexpr const char* success = R"({"status":"success"})";

std::string error_json(const Error& error) {
  std::string line = R"({"error":)";
  append_json_string(line, error.message());
  return line + '}';
}

}  // namespace

std::string status_json(const JobStatus& status) {
  std::string line = R"({"status":)";
  append_json_string(line, status.text);
  if (!status.digest.empty()) {
    line += R"(,"digest":)";
    append_json_string(line, status.digest);
  }
  if (status.total != 0) line += fmt::format(R"(,"total":{},"completed":{})", status.total, status.completed);
  return line + '}';
}

StatusLines::StatusLines(std::shared_ptr<http::Exchange> exchange, bool is_streamed)
    : exchange_(std::move(exchange)), is_streamed_(is_streamed) {}

void StatusLines::write(const JobStatus& status) {
  const std::lock_guard lock(mutex_);
  if (!is_streamed_ || has_ended_ || !has_room_) return;
  if (!std::exchange(has_begun_, true)) {
    exchange_->start(http::Response::streamed("application/x-ndjson"));
    exchange_->on_room([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard room(self->mutex_);
      self->has_room_ = true;
    });
  }
  has_room_ = exchange_->write(http::Piece::of(status_json(status) + "\n")) == http::Exchange::Flow::go;
}

void StatusLines::finish(const std::optional<Error>& failure) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_ended_, true)) return;
  if (has_begun_) {
    if (failure) exchange_->broken(error_response(*failure, Protocol::ollama).status, *failure);
    (void)exchange_->write(http::Piece::of((failure ? error_json(*failure) : success) + std::string("\n")));
    exchange_->finish();
  } else if (failure) {
    exchange_->respond(error_response(*failure, Protocol::ollama));
  } else {
    http::Response response;
    response.headers.add("Content-Type", is_streamed_ ? "application/x-ndjson" : "application/json");
    response.text = success + std::string(is_streamed_ ? "\n" : "");
    exchange_->respond(std::move(response));
  }
}

}  // namespace gpux::server
