#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation/answer_delta.h"
#include "server/generation/answer_sink.h"
#include "server/generation/generation_job.h"

namespace gpux::server {

/// Takes the text of one answer apart as it comes. One thread at a time.
class AnswerReader {
 public:
  AnswerReader() = default;
  virtual ~AnswerReader() = default;
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  /// Adds what is certain after more text to the delta.
  virtual void add(std::string_view text, AnswerDelta& delta) = 0;
  /// Adds the rest. Whether the answer calls a tool.
  virtual bool finish(AnswerDelta& delta) = 0;
};

/// The whole text is the answer.
class PlainReader : public AnswerReader {
 public:
  void add(std::string_view text, AnswerDelta& delta) override { delta.text += text; }

  bool finish(AnswerDelta& /*delta*/) override { return false; }
};

/// Turns what a job generates into the parts of answers.
class AnswerWriter : public GenerationListener {
 public:
  /// `readers`: one for each answer. `answers`: to each prompt. `prompt`: the tokens of the only one, for
  /// AnswerDelta::tokens; empty: those are not requested.
  /// `echoes`: the texts of the prompts, for AnswerDelta::echo; empty: those are not requested.
  AnswerWriter(std::shared_ptr<AnswerSink> sink, std::vector<std::unique_ptr<AnswerReader>> readers,
               std::size_t answers, std::vector<std::uint32_t> prompt = {}, std::vector<std::string> echoes = {});

  void prompt(std::size_t choice, std::vector<TokenScore>&& scores) override;
  void token(std::size_t choice, GeneratedToken&& token) override;
  void ended(std::size_t choice, Completion&& completion) override;
  void done(const std::optional<Error>& error) override;

 private:
  struct Choice {
    std::unique_ptr<AnswerReader> reader;
    std::size_t given_bytes = 0;  // of the text, to the reader
    std::size_t tokens = 0;
    std::size_t reasoning_tokens = 0;  // up to the last one that gave reasoning
    bool has_begun = false;
  };

  AnswerDelta next_of(std::size_t choice);

  std::shared_ptr<AnswerSink> sink_;
  std::vector<Choice> choices_;
  std::size_t answers_;
  std::vector<std::uint32_t> prompt_;
  std::vector<std::string> echoes_;
  AnswerUsage usage_;
};

}  // namespace gpux::server
