#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "server/http/server.h"

namespace gpux::http {

/// Told that a handler has given something: an answer, a piece, a wish.
class AnswerListener {
 public:
  AnswerListener() = default;
  virtual ~AnswerListener() = default;
  AnswerListener(const AnswerListener&) = delete;
  AnswerListener& operator=(const AnswerListener&) = delete;

  /// An answer, or a part of one, is available. Called from any thread with the answer locked: must only pass it on.
  virtual void answer_came() = 0;
};

/// Where a handler, on any thread, and a connection, on its own, meet over one request.
class Answer {
 public:
  explicit Answer(std::uint64_t stream_queue_bytes) : queue_limit_(stream_queue_bytes) {}

  /// The connection fills it in before anybody else sees it.
  Request request;

  // The handler's side, as Exchange describes it.
  void respond(Response response);
  void on_gone(std::function<void()> callback);
  void start(Response head);
  Exchange::Flow write(Piece piece);
  void on_room(std::function<void()> callback);
  void finish();
  /// No handler holds the answer any more: answers 500, or breaks the stream off.
  void abandon();

  // The connection's side.

  void listen(std::shared_ptr<AnswerListener> listener);

  struct Given {
    std::optional<Response> response;  ///< whole, or the head of a streamed one; once
    bool streaming = false;
    std::vector<Piece> pieces;
    bool finished = false;  ///< no pieces come after these
    bool broken = false;    ///< the stream cannot be completed
    bool watch = false;     ///< somebody wants to know when the client leaves
  };

  /// The pieces since the last call. The listener is called for pieces after this call, not before the first one.
  Given take();
  /// `bytes` of the pieces have been sent.
  void written(std::uint64_t bytes);
  /// The whole answer has been sent.
  void done();
  /// The client has left: the answer will never be sent as a whole.
  void client_left();

 private:
  enum class State : int { open, answered, streaming, finished, gone };

  void tell_listener();

  std::mutex mutex_;
  State state_ = State::open;
  bool told_ = true;  ///< the listener, since it took last; true before the first time
  bool broken_ = false;
  bool waiting_for_room_ = false;
  std::shared_ptr<AnswerListener> listener_;
  std::optional<Response> response_;
  std::vector<Piece> pieces_;
  std::uint64_t queued_bytes_ = 0;  ///< taken or not, until written
  std::uint64_t queue_limit_;
  std::function<void()> gone_;
  std::function<void()> room_;
};

/// The Exchange that a handler holds. When the last reference goes without an answer, it answers 500, or cuts a
/// stream off.
class HandlerExchange final : public Exchange {
 public:
  explicit HandlerExchange(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}

  ~HandlerExchange() override { answer_->abandon(); }

  HandlerExchange(const HandlerExchange&) = delete;
  HandlerExchange& operator=(const HandlerExchange&) = delete;

  [[nodiscard]] const Request& request() const noexcept override { return answer_->request; }

  void respond(Response response) override { answer_->respond(std::move(response)); }

  void on_gone(std::function<void()> callback) override { answer_->on_gone(std::move(callback)); }

  void start(Response head) override { answer_->start(std::move(head)); }

  Flow write(Piece piece) override { return answer_->write(std::move(piece)); }

  void on_room(std::function<void()> callback) override { answer_->on_room(std::move(callback)); }

  void finish() override { answer_->finish(); }

 private:
  std::shared_ptr<Answer> answer_;
};

}  // namespace gpux::http
