#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "server/http/server.h"

namespace gpux::http {

/// An exchange whose answers are completed before they are sent: fields that all of them have.
class CompletedExchange : public Exchange {
 public:
  explicit CompletedExchange(std::shared_ptr<Exchange> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const Request& request() const noexcept override { return inner_->request(); }

  void respond(Response response) override {
    complete(response);
    // Behind the head of a streamed answer this one is ignored.
    if (status_ == 0) ends(response.status);
    inner_->respond(std::move(response));
  }

  void on_gone(std::function<void()> callback) override { inner_->on_gone(std::move(callback)); }

  void start(Response head) override {
    complete(head);
    status_ = head.status;
    inner_->start(std::move(head));
  }

  Flow write(Piece piece) override { return inner_->write(std::move(piece)); }

  void on_room(std::function<void()> callback) override { inner_->on_room(std::move(callback)); }

  void finish() override {
    ends(status_);
    inner_->finish();
  }

  void broken(int status, const Error& error) override { inner_->broken(status, error); }

 private:
  /// The whole answer, or the head of a streamed one.
  virtual void complete(Response& response) const = 0;

  /// The whole answer, or the end of a streamed one, is handed over next: behind that, what the answer is for may be
  /// gone. May be called more than once.
  virtual void ends(int /*status*/) {}

  std::shared_ptr<Exchange> inner_;
  std::atomic<int> status_ = 0;  // of an answer that is streamed
};

}  // namespace gpux::http
