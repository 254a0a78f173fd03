#pragma once

#include "gpux/error.h"
#include "server/generation/answer_delta.h"

namespace gpux::server {

/// Receives the answers to a request. One call at a time.
class AnswerSink {
 public:
  AnswerSink() = default;
  virtual ~AnswerSink() = default;
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;

  /// Takes the next part. Error resource_exhausted: there is no memory for it.
  virtual void write(AnswerDelta delta) = 0;
  /// Ends the answers, after the last part.
  virtual void finish(const AnswerUsage& usage) = 0;
  /// Ends the answers with an error in place of the rest.
  virtual void fail(const Error& error) = 0;
};

}  // namespace gpux::server
