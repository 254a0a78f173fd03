#include "server/generation/streamed_answer.h"

#include <algorithm>
#include <utility>

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// An event's parts, and pieces for the transport: below what the transport takes for a client that does not read.
constexpr std::size_t event_bytes = 16 << 10, piece_bytes = 64 << 10;

}  // namespace

StreamedAnswer::StreamedAnswer(std::shared_ptr<http::Exchange> exchange, std::unique_ptr<AnswerEvents> events,
                               std::function<http::Response(const Error&)> refuse)
    : exchange_(std::move(exchange)), events_(std::move(events)), refuse_(std::move(refuse)) {}

void StreamedAnswer::start() {
  if (std::exchange(has_begun_, true)) return;
  exchange_->start(http::Response::streamed(events_->content_type()));
  exchange_->on_room([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    self->has_room_ = true;
    self->send();
  });
}

http::Piece StreamedAnswer::next_piece() {
  std::string text;
  while (!waiting_.empty() && text.size() < piece_bytes) {
    events_->append(text, waiting_.front());
    waiting_.pop_front();
  }
  if (waiting_.empty() && append_last_) std::exchange(append_last_, nullptr)(text);
  return http::Piece::of(std::move(text));
}

// As much as the transport has room for.
void StreamedAnswer::send() {
  start();
  while (has_room_ && (!unsent_.bytes.empty() || !waiting_.empty() || append_last_)) {
    if (unsent_.bytes.empty()) unsent_ = next_piece();
    const std::size_t bytes = std::min(unsent_.bytes.size(), piece_bytes);
    http::Piece piece{unsent_.bytes.first(bytes), unsent_.owner};
    unsent_.bytes = unsent_.bytes.subspan(bytes);
    if (unsent_.bytes.empty()) unsent_ = {};
    last_write_ = Clock::now();
    const http::Exchange::Flow flow = exchange_->write(std::move(piece));
    has_room_ = flow == http::Exchange::Flow::go;
    if (flow != http::Exchange::Flow::gone) continue;
    has_ended_ = true;
    unsent_ = {};
    waiting_.clear();
    append_last_ = nullptr;
  }
  if (has_ended_ && unsent_.bytes.empty() && waiting_.empty() && !append_last_) exchange_->finish();
}

void StreamedAnswer::write(AnswerDelta delta) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  events_->hold(delta);
  const bool joins = !waiting_.empty() && waiting_.back().can_append(delta) && waiting_.back().bytes() < event_bytes;
  if (joins) {
    waiting_.back().append(std::move(delta));
  } else {
    waiting_.push_back(std::move(delta));
  }
  send();
}

void StreamedAnswer::end(std::function<void(std::string&)> append) {
  has_ended_ = true;
  append_last_ = std::move(append);
  send();
}

void StreamedAnswer::finish(const AnswerUsage& usage) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  end([this, usage](std::string& out) { events_->append_end(out, usage); });
}

void StreamedAnswer::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  if (!has_begun_) {
    has_ended_ = true;
    exchange_->respond(refuse_(error));
    return;
  }
  exchange_->broken(refuse_(error).status, error);
  end([this, error](std::string& out) { events_->append_error(out, error); });
}

bool StreamedAnswer::keep_alive(Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || events_->keep_alive().empty()) return false;
  if (last_write_ > since || !has_room_ || !unsent_.bytes.empty() || !waiting_.empty()) return true;
  start();
  last_write_ = Clock::now();
  has_room_ = exchange_->write(http::Piece::lasting(events_->keep_alive())) == http::Exchange::Flow::go;
  return true;
}

}  // namespace gpux::server
