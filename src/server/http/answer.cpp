#include "server/http/answer.h"

#include <utility>

namespace gpux::http {

namespace {

constexpr std::uint64_t patience = 16;  ///< how many times the queue's limit may be passed

}  // namespace

// Callbacks are run, and dropped, only once the lock is released: they may call back.

void Answer::tell_listener() {
  if (told_ || !listener_) return;
  told_ = true;
  listener_->answer_came();
}

void Answer::respond(Response response) {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (state_ != State::open) return;
  state_ = State::answered;
  response_ = std::move(response);
  dropped.swap(gone_);
  tell_listener();
}

void Answer::on_gone(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (state_ == State::gone) {
    lock.unlock();
    callback();
  } else if (state_ == State::open || state_ == State::streaming) {
    gone_.swap(callback);
    tell_listener();
    lock.unlock();
  }
}

void Answer::start(Response head) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::open) return;
  state_ = State::streaming;
  if (!head.text.empty()) pieces_.push_back(Piece::of(std::move(head.text)));
  for (Piece& piece : head.pieces) {
    if (!piece.bytes.empty()) pieces_.push_back(std::move(piece));
  }
  head.text.clear();
  head.pieces.clear();
  for (const Piece& piece : pieces_) queued_bytes_ += piece.bytes.size();
  response_ = std::move(head);
  tell_listener();
}

Exchange::Flow Answer::write(Piece piece) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::streaming || broken_) return Exchange::Flow::gone;
  if (!piece.bytes.empty()) {
    queued_bytes_ += piece.bytes.size();
    pieces_.push_back(std::move(piece));
  }
  broken_ = queued_bytes_ / patience > queue_limit_;
  tell_listener();
  if (broken_) return Exchange::Flow::gone;
  waiting_for_room_ = waiting_for_room_ || queued_bytes_ > queue_limit_;
  return waiting_for_room_ ? Exchange::Flow::wait : Exchange::Flow::go;
}

void Answer::on_room(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (state_ != State::gone && state_ != State::finished) room_.swap(callback);
  lock.unlock();
}

void Answer::finish() {
  std::function<void()> dropped;
  std::function<void()> dropped_too;
  const std::lock_guard lock(mutex_);
  if (state_ != State::streaming) return;
  state_ = State::finished;
  dropped.swap(gone_);
  dropped_too.swap(room_);
  tell_listener();
}

void Answer::abandon() {
  respond(Response::error(500, "the server gave no answer to this request"));
  const std::lock_guard lock(mutex_);
  if (state_ != State::streaming) return;
  broken_ = true;
  tell_listener();
}

void Answer::listen(std::shared_ptr<AnswerListener> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

Answer::Given Answer::take() {
  const std::lock_guard lock(mutex_);
  told_ = false;
  Given given;
  given.response.swap(response_);
  given.pieces.swap(pieces_);
  given.streaming = state_ == State::streaming || state_ == State::finished;
  given.finished = state_ == State::finished;
  given.broken = broken_;
  given.watch = static_cast<bool>(gone_);
  return given;
}

void Answer::written(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  queued_bytes_ -= bytes;
  if (!waiting_for_room_ || queued_bytes_ > 0) return;
  waiting_for_room_ = false;
  const std::function<void()> room = room_;
  lock.unlock();
  if (room) room();
}

void Answer::done() {
  const std::lock_guard lock(mutex_);
  listener_.reset();
}

void Answer::client_left() {
  std::unique_lock lock(mutex_);
  listener_.reset();
  std::function<void()> gone;
  std::function<void()> room;
  std::vector<Piece> pieces;
  if (state_ == State::open || state_ == State::streaming) {
    state_ = State::gone;
    gone.swap(gone_);
    room.swap(room_);
    pieces.swap(pieces_);
  }
  lock.unlock();
  if (gone) gone();
  if (room) room();
}

}  // namespace gpux::http
