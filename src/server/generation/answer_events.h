#pragma once

#include <string>
#include <string_view>

#include "gpux/error.h"
#include "server/generation/answer_delta.h"

namespace gpux::server {

/// How a protocol writes answers as they come. One thread at a time.
class AnswerEvents {
 public:
  AnswerEvents() = default;
  virtual ~AnswerEvents() = default;
  AnswerEvents(const AnswerEvents&) = delete;
  AnswerEvents& operator=(const AnswerEvents&) = delete;

  [[nodiscard]] virtual std::string_view content_type() const noexcept = 0;
  /// Text that clients ignore, sent to keep a connection alive; empty: the protocol has none.
  [[nodiscard]] virtual std::string_view keep_alive() const noexcept = 0;

  /// Takes the memory that the events keep of a part until the end of the answer, before append() gets it. Error
  /// resource_exhausted: there is none.
  virtual void hold(const AnswerDelta& /*delta*/) {}

  virtual void append(std::string& out, const AnswerDelta& delta) = 0;
  /// Writes the end of the stream, after the last part of the last answer.
  virtual void append_end(std::string& out, const AnswerUsage& usage) = 0;
  /// Writes an error in place of the rest. Nothing follows.
  virtual void append_error(std::string& out, const Error& error) = 0;
};

}  // namespace gpux::server
