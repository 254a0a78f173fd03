#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "generation/answer_parser.h"
#include "server/generation/answer_writer.h"

namespace gpux::server {

/// Takes reasoning, text and calls of tools apart. One thread at a time.
class ChatReader : public AnswerReader {
 public:
  ChatReader(std::shared_ptr<const generation::AnswerSettings> settings, std::uint64_t id_seed)
      : parser_(std::move(settings), id_seed) {}

  void add(std::string_view text, AnswerDelta& delta) override;
  bool finish(AnswerDelta& delta) override;

 private:
  void take(std::vector<generation::AnswerDelta> parts, AnswerDelta& delta);

  generation::AnswerParser parser_;
  bool calls_tools_ = false;
};

}  // namespace gpux::server
