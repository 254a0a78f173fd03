#pragma once

#include <string>

#include "generation/answer_parser.h"
#include "server/generation/answer_writer.h"

namespace gpux::server {

/// Takes reasoning, text and calls of tools apart. One thread at a time.
class ChatReader : public AnswerReader {
 public:
  /// `allows_several`: calls; else those behind the first one are left out.
  ChatReader(generation::AnswerSettings settings, bool allows_several);

  void add(std::string_view text, AnswerDelta& delta) override;
  bool finish(AnswerDelta& delta) override;

 private:
  void take(std::vector<generation::AnswerDelta> parts, AnswerDelta& delta);

  generation::AnswerParser parser_;
  bool allows_several_;
  bool calls_tools_ = false;
};

}  // namespace gpux::server
