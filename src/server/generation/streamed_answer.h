#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpux/error.h"
#include "server/generation/answer_delta.h"
#include "server/generation/answer_events.h"
#include "server/generation/answer_sink.h"
#include "server/http/server.h"

namespace gpux::server {

/// An answer that is sent as it comes. What a client has not read yet waits here, joined to fewer and longer events, so
/// that it takes little more memory than the text. The answer begins with the first part, or with the first sign of
/// life: an error before that is an answer of its own with its status. All members from any thread.
class StreamedAnswer : public AnswerSink, public std::enable_shared_from_this<StreamedAnswer> {
 public:
  /// `refuse` makes the answer of an error before anything was sent.
  StreamedAnswer(std::shared_ptr<http::Exchange> exchange, std::unique_ptr<AnswerEvents> events,
                 std::function<http::Response(const Error&)> refuse);

  void write(AnswerDelta delta) override;
  void finish(const AnswerUsage& usage) override;
  void fail(const Error& error) override;

  /// Writes a sign of life, if nothing was written since `since`. False where the answer has ended, or its protocol has
  /// no such sign.
  bool keep_alive(std::chrono::steady_clock::time_point since);

 private:
  void start();
  void send();
  http::Piece next_piece();
  void end(std::function<void(std::string&)> append);

  std::shared_ptr<http::Exchange> exchange_;
  std::unique_ptr<AnswerEvents> events_;
  std::function<http::Response(const Error&)> refuse_;
  std::chrono::steady_clock::time_point last_write_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::deque<AnswerDelta> waiting_;
  http::Piece unsent_;  // the rest of events that are longer than the transport takes at once
  std::function<void(std::string&)> append_last_;  // after what waits: events may depend on those before; null: none
  bool has_begun_ = false, has_ended_ = false, has_room_ = true;
};

}  // namespace gpux::server
