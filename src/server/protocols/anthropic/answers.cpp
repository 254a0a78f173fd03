#include "server/protocols/anthropic/answers.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "generation/json_extent.h"
#include "server/protocols/error_answers.h"
#include "tensor/json_writer.h"

namespace gpux::server::anthropic {
namespace {

enum class BlockKind : std::uint8_t { thinking, text, tool_use };

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out += fmt::format(R"(,"{}":)", name);
  append_json_string(out, text);
}

/// How an answer ended.
struct Ending {
  std::string finish_reason, stop_text;

  void take(const AnswerDelta& part) {
    if (part.finish_reason.empty()) return;
    finish_reason = part.finish_reason;
    stop_text = part.stop_text;
  }
};

std::string_view stop_reason(const Ending& ending, std::size_t max_tokens, const AnswerUsage& usage) {
  if (ending.finish_reason == "tool_calls") return "tool_use";
  if (ending.finish_reason == "length") {
    return usage.generated_tokens < max_tokens ? "model_context_window_exceeded" : "max_tokens";
  }
  return ending.stop_text.empty() ? "end_turn" : "stop_sequence";
}

// "stop_reason" and "stop_sequence".
void append_stop(std::string& out, const Ending& ending, const MessageHead& head, const AnswerUsage& usage) {
  const std::string_view reason = stop_reason(ending, head.max_tokens, usage);
  out += fmt::format(R"("stop_reason":"{}","stop_sequence":)", reason);
  if (reason == "stop_sequence") {
    append_json_string(out, ending.stop_text);
  } else {
    out += "null";
  }
}

// Tokens that a cache had are not counted as input, as Anthropic counts them.
std::string usage_json(std::size_t prompt_tokens, std::size_t cached_tokens, std::size_t generated_tokens) {
  return fmt::format(
      R"("usage":{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"output_tokens":{}}})",
      prompt_tokens - cached_tokens, cached_tokens, generated_tokens);
}

std::string usage_json(const AnswerUsage& usage) {
  return usage_json(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens);
}

void append_head(std::string& out, const MessageHead& head) {
  out += fmt::format(R"({{"id":"{}","type":"message","role":"assistant","model":)", head.id);
  append_json_string(out, head.model);
}

class MessageEvents : public AnswerEvents {
 public:
  MessageEvents(MessageHead head, std::size_t prompt_tokens) : head_(std::move(head)), prompt_tokens_(prompt_tokens) {}

  [[nodiscard]] std::string_view content_type() const noexcept override { return "text/event-stream; charset=utf-8"; }

  [[nodiscard]] std::string_view keep_alive() const noexcept override {
    return "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  }

  void append(std::string& out, const AnswerDelta& delta) override {
    begin(out);
    if (!delta.reasoning.empty()) add_thinking(out, delta.reasoning);
    // Behind the end of a call there may be text, in the same delta.
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (call.name.empty()) add_call(out, call);
    }
    if (!delta.text.empty()) add(out, BlockKind::text, "text_delta", "text", delta.text);
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (!call.name.empty()) add_call(out, call);
    }
    ending_.take(delta);
  }

  void append_end(std::string& out, const AnswerUsage& usage) override {
    begin(out);
    close(out);
    std::string members = R"(,"delta":{)";
    append_stop(members, ending_, head_, usage);
    event(out, "message_delta", members + "}," + usage_json(usage));
    event(out, "message_stop", {});
  }

  void append_error(std::string& out, const Error& error) override {
    out += "event: error\ndata: " + anthropic_error_json(error) + "\n\n";
  }

 private:
  static void event(std::string& out, std::string_view type, std::string_view members) {
    out += fmt::format("event: {0}\ndata: {{\"type\":\"{0}\"{1}}}\n\n", type, members);
  }

  void begin(std::string& out) {
    if (std::exchange(has_begun_, true)) return;
    std::string members = R"(,"message":)";
    append_head(members, head_);
    members += R"(,"content":[],"stop_reason":null,"stop_sequence":null,)";
    event(out, "message_start", members + usage_json(prompt_tokens_, 0, 0) + "}");
  }

  void open(std::string& out, BlockKind kind, std::string_view block) {
    close(out);
    open_ = kind;
    event(out, "content_block_start", fmt::format(R"(,"index":{},"content_block":{})", index_, block));
  }

  void close(std::string& out) {
    if (!open_) return;
    open_.reset();
    event(out, "content_block_stop", fmt::format(R"(,"index":{})", index_++));
  }

  // A part of the block that is open, or of a new one.
  void add(std::string& out, BlockKind kind, std::string_view type, std::string_view member, std::string_view text) {
    if (open_ != kind) {
      const bool is_text = kind == BlockKind::text;
      open(out, kind, is_text ? R"({"type":"text","text":""})" : R"({"type":"thinking","thinking":"","signature":""})");
    }
    std::string members = fmt::format(R"(,"index":{},"delta":{{"type":"{}")", index_, type);
    append_member(members, member, text);
    event(out, "content_block_delta", members + "}");
  }

  void add_thinking(std::string& out, const std::string& text) {
    if (head_.shows_thinking) {
      add(out, BlockKind::thinking, "thinking_delta", "thinking", text);
    } else if (open_ != BlockKind::thinking) {
      open(out, BlockKind::thinking, R"({"type":"thinking","thinking":"","signature":""})");
    }
  }

  void add_call(std::string& out, const ToolCallDelta& call) {
    if (!call.name.empty()) {
      std::string block = R"({"type":"tool_use")";
      append_member(block, "id", call.id);
      append_member(block, "name", call.name);
      open(out, BlockKind::tool_use, block + R"(,"input":{}})");
    }
    if (!call.arguments.empty()) add(out, BlockKind::tool_use, "input_json_delta", "partial_json", call.arguments);
  }

  MessageHead head_;
  std::size_t prompt_tokens_;
  bool has_begun_ = false;
  std::optional<BlockKind> open_;
  std::size_t index_ = 0;  // of the block that is open, or of the next one
  Ending ending_;
};

/// The blocks of a whole message.
class Blocks {
 public:
  explicit Blocks(bool shows_thinking) : shows_thinking_(shows_thinking) {}

  void add(const AnswerDelta& part) {
    if (!part.reasoning.empty()) add_text(BlockKind::thinking, part.reasoning);
    for (const ToolCallDelta& call : part.tool_calls) {
      if (call.name.empty()) add_call(call);
    }
    if (!part.text.empty()) add_text(BlockKind::text, part.text);
    for (const ToolCallDelta& call : part.tool_calls) {
      if (!call.name.empty()) add_call(call);
    }
  }

  /// `is_cut`: by a limit. A call whose arguments are no JSON otherwise is given as the text that it is.
  void append_to(std::string& out, bool is_cut) const {
    for (const Block& block : blocks_) {
      if (&block != &blocks_.front()) out += ',';
      const bool is_broken =
          block.kind == BlockKind::tool_use && !block.text.empty() && !generation::is_json(block.text);
      append(out, is_broken && !is_cut ? Block{.kind = BlockKind::text, .text = block.text} : block);
    }
  }

 private:
  struct Block {
    BlockKind kind;
    std::string text = {}, id = {}, name = {};
  };

  void add_call(const ToolCallDelta& call) {
    if (!call.name.empty()) blocks_.push_back({.kind = BlockKind::tool_use, .id = call.id, .name = call.name});
    blocks_.back().text += call.arguments;
  }

  void add_text(BlockKind kind, const std::string& text) {
    if (blocks_.empty() || blocks_.back().kind != kind) blocks_.push_back({.kind = kind});
    blocks_.back().text += text;
  }

  void append(std::string& out, const Block& block) const {
    switch (block.kind) {
      case BlockKind::thinking:
        out += R"({"type":"thinking")";
        append_member(out, "thinking", shows_thinking_ ? std::string_view(block.text) : std::string_view());
        append_member(out, "signature", "");
        break;
      case BlockKind::text:
        out += R"({"type":"text")";
        append_member(out, "text", block.text);
        break;
      case BlockKind::tool_use:
        out += R"({"type":"tool_use")";
        append_member(out, "id", block.id);
        append_member(out, "name", block.name);
        // A JSON object: the parser of answers takes no other for a call. One that was cut off is none.
        out += fmt::format(R"(,"input":{})", generation::is_json(block.text) ? block.text : "{}");
        break;
    }
    out += '}';
  }

  bool shows_thinking_;
  std::vector<Block> blocks_;
};

}  // namespace

std::string message_json(const MessageHead& head, const std::vector<AnswerDelta>& parts, const AnswerUsage& usage) {
  Blocks blocks(head.shows_thinking);
  Ending ending;
  for (const AnswerDelta& part : parts) {
    blocks.add(part);
    ending.take(part);
  }
  std::string out;
  append_head(out, head);
  out += R"(,"content":[)";
  blocks.append_to(out, ending.finish_reason == "length");
  out += "],";
  append_stop(out, ending, head, usage);
  return out + "," + usage_json(usage) + "}";
}

std::unique_ptr<AnswerEvents> message_events(MessageHead head, std::size_t prompt_tokens) {
  return std::make_unique<MessageEvents>(std::move(head), prompt_tokens);
}

}  // namespace gpux::server::anthropic
