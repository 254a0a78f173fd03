#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::generation {

/// Takes an answer apart that consists of messages with channels, as OpenAI's harmony format has them:
/// <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>. The channel analysis
/// is reasoning, and the others content. A message with a recipient that is a known function is its call, where it is a
/// JSON object. A text without such markers is content. Pure: the same parts, joined, however the text is split.
class ChannelReader {
 public:
  /// A part of a message; of a call the whole arguments.
  struct Part {
    enum class Kind : std::uint8_t { content, reasoning, call };

    Kind kind = Kind::content;
    std::string text;
    std::string function = {};  ///< call
  };

  /// The functions outlive it.
  explicit ChannelReader(std::span<const std::string> functions) : functions_(functions) {}

  /// Takes what is certain off the text. `is_end`: nothing follows; a call that is cut off is content.
  std::vector<Part> read(std::string& text, bool is_end);

 private:
  bool read_header(std::string& text, bool is_end, std::vector<Part>& parts);
  bool read_body(std::string& text, bool is_end, std::vector<Part>& parts);
  void begin_message(std::string_view header);
  void add(std::string_view text, std::vector<Part>& parts);
  void end_call(std::string_view text, std::vector<Part>& parts);

  std::span<const std::string> functions_;
  Part::Kind kind_ = Part::Kind::content;
  std::string function_;
  std::size_t searched_ = 0;  // of a call's text, for its end
  bool is_in_body_ = false;
  bool has_message_ = false;        // one has begun, with or without text
  bool has_text_ = false;           // the message has
  std::array<bool, 2> has_kind_{};  // a message of content, of reasoning, had text
};

}  // namespace gpux::generation
