#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generation/answer_format.h"
#include "generation/channel_reader.h"
#include "generation/json_extent.h"
#include "generation/tool_call_formats.h"
#include "generation/tool_call_text.h"
#include "gpux/chat.h"

namespace gpux::generation {

using AnswerDelta = ChatDelta;

/// Settings of AnswerParser: format, functions that may be called, and the state in which the prompt ends.
struct AnswerSettings {
  AnswerFormat format;
  std::vector<std::string> functions;  ///< that the model may call; none: nothing is read as a call
  bool begins_in_reasoning = false;    ///< opens_reasoning() of the prompt
  std::uint64_t id_seed = 0;           ///< from which ids of calls are made where the model gives none
  /// A constraint lets the answer be nothing but calls, and reasoning before them: the part of a call with which it is
  /// cut off is no content, and is left out.
  bool is_enforced = false;
  bool allows_several = true;  ///< calls; those behind the first one are left out otherwise
  /// JSON schemas of the functions' arguments, in their order: types of values that are written without them.
  std::vector<std::string> parameters = {};
  /// With is_enforced: the answer may be a text of a form instead of calls. Nothing in such a text is a call.
  bool may_have_form = false;
};

/// Takes an answer apart while it is generated. Pure: the same deltas, joined, however the text is split.
///
/// Reasoning is at the beginning only, but for formats with channels. A call is of one of the functions, with an object
/// as arguments. Where its name comes first, as JSON, it is given as soon as the object begins, and the arguments as
/// they come: a text that ends within them, or continues with what is no JSON, leaves a call with a part of them. In
/// all other forms a call is given when it is complete. What only looks like a call (no JSON, another function) is
/// content, and nothing is lost but markers and the white space around reasoning and calls, and what follows the
/// arguments within a call. The text must have the markers of the format, also where they are special tokens:
/// markers_of().
class AnswerParser {
 public:
  explicit AnswerParser(AnswerSettings settings);
  /// The same for one of several answers, which share the settings but for the seed of their ids.
  AnswerParser(std::shared_ptr<const AnswerSettings> settings, std::uint64_t id_seed);

  /// Adds the next piece of the text, of whole UTF-8 characters. Returns the deltas that are certain now.
  std::vector<AnswerDelta> add(std::string_view piece);

  /// Ends the text. Returns the deltas that were held back.
  std::vector<AnswerDelta> finish();

  /// Whether the arguments of a call turned out to be no JSON: what was given of them is no object.
  [[nodiscard]] bool has_broken_call() const noexcept { return has_broken_call_; }

 private:
  enum class Stage : std::uint8_t { start, reasoning, content, call, arguments, end_of_call };

  // A marker in a text that is content otherwise.
  struct Found {
    std::size_t at = std::string_view::npos;
    std::size_t size = 0;              // of the marker
    const CallBlock* block = nullptr;  // null: the marker means nothing alone
  };

  std::vector<AnswerDelta> read(bool is_end);
  bool step(bool is_end);
  bool step_start(bool is_end);
  bool step_reasoning(bool is_end);
  bool step_content(bool is_end);
  bool step_call(bool is_end);
  bool step_json(std::size_t first, std::string_view name, std::string_view id, bool is_end);
  bool step_named(std::size_t first, bool is_end);
  bool step_arguments(bool is_end);
  bool step_block(std::size_t first, bool is_end);
  bool step_end_of_call(bool is_end);

  bool step_channels(bool is_end);

  [[nodiscard]] Found find_marker(std::string_view text) const;
  [[nodiscard]] bool begins_with_json() const noexcept;
  [[nodiscard]] std::optional<std::vector<ToolCall>> calls_in(std::string_view code) const;
  bool take_calls(std::vector<ToolCall> calls, std::size_t bytes);
  bool begin_call(CallHead head, std::size_t first, std::size_t arguments);
  bool give_call(std::string name, std::string id);
  bool refuse(std::size_t bytes = 0);
  void emit(AnswerDelta::Kind kind, std::string_view text);

  void drop(std::size_t bytes) { held_.erase(0, bytes); }

  std::shared_ptr<const AnswerSettings> settings_;
  std::uint64_t id_seed_;
  const ToolCallFormat* format_;      // of the calls that are read
  std::vector<std::string> markers_;  // that may be in content: those that begin calls, and that mean nothing alone
  std::optional<ChannelReader> channels_;
  Stage stage_ = Stage::start;
  std::string held_;                          // the text that is not decided yet
  std::string before_;                        // a marker and the white space before it: content where no call follows
  CallBlock block_;                           // the one that was found
  JsonExtent extent_;                         // of the JSON behind it
  JsonExtent arguments_;                      // of a call that has begun
  std::size_t first_ = 0, at_arguments_ = 0;  // of held_: where the JSON of such a call begins, and its arguments
  std::size_t given_ = 0;                     // bytes of its arguments
  bool has_broken_call_ = false;
  bool gives_ = true;          // false: it is left out
  std::size_t searched_ = 0;   // of held_, for the end of a call
  std::size_t calls_ = 0;      // that were given
  bool has_content_ = false;   // besides white space
  bool drops_blanks_ = false;  // white space is next to a marker
  bool drops_content_ = false;
  std::set<std::string, std::less<>> ids_;  // that the model gave
  std::vector<AnswerDelta> deltas_;
};

/// The id of a call: nine letters and digits, which is what Mistral's template asks for.
std::string tool_call_id(std::uint64_t seed, std::size_t index);

}  // namespace gpux::generation
