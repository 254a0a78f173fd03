#pragma once

#include "gpux/error.h"
#include "server/generation/answer_delta.h"

namespace gpux::server {

/// Where the answers to a request go. One call at a time.
class AnswerSink {
 public:
  AnswerSink() = default;
  virtual ~AnswerSink() = default;
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;

  /// Error resource_exhausted: there is no memory for it.
  virtual void write(AnswerDelta delta) = 0;
  /// After the last part.
  virtual void finish(const AnswerUsage& usage) = 0;
  /// In place of what is missing.
  virtual void fail(const Error& error) = 0;
};

}  // namespace gpux::server
