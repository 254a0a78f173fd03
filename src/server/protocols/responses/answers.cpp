#include "server/protocols/responses/answers.h"

#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/random_id.h"
#include "server/protocols/token_scores.h"
#include "server/requests/request_work.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out += fmt::format(R"(,"{}":)", name);
  append_json_string(out, text);
}

/// An item of the output.
struct OutputItem {
  enum class Kind : std::uint8_t { reasoning, message, call };

  Kind kind = Kind::message;
  std::string id;
  std::string text;           // of the message, the reasoning or the arguments
  std::string scores;         // JSON, of a message
  std::string call_id, name;  // of a call
  std::string group;          // the namespace of the function; empty: none
};

std::string_view prefix_of(OutputItem::Kind kind) {
  switch (kind) {
    case OutputItem::Kind::reasoning:
      return "rs_";
    case OutputItem::Kind::message:
      return "msg_";
    case OutputItem::Kind::call:
      break;
  }
  return "fc_";
}

// The part of a message or of reasoning.
void append_part(std::string& out, const OutputItem& item, std::string_view text) {
  if (item.kind == OutputItem::Kind::reasoning) {
    out += R"({"type":"reasoning_text","text":)";
    append_json_string(out, text);
    out += '}';
    return;
  }
  out += R"({"type":"output_text","annotations":[],"text":)";
  append_json_string(out, text);
  out += fmt::format(R"(,"logprobs":[{}]}})", item.scores);
}

// Without its content where it has only begun.
void append_item(std::string& out, const OutputItem& item, std::string_view status) {
  const bool has_begun = status == "in_progress";
  out += fmt::format(R"({{"id":"{}","status":"{}")", item.id, status);
  const auto append_content = [&] {
    out += R"(,"content":[)";
    if (!has_begun) append_part(out, item, item.text);
    out += ']';
  };
  switch (item.kind) {
    case OutputItem::Kind::reasoning:
      out += R"(,"type":"reasoning","summary":[])";
      append_content();
      break;
    case OutputItem::Kind::message:
      out += R"(,"type":"message","role":"assistant")";
      append_content();
      break;
    case OutputItem::Kind::call:
      out += R"(,"type":"function_call")";
      append_member(out, "call_id", item.call_id);
      append_member(out, "name", item.name);
      if (!item.group.empty()) append_member(out, "namespace", item.group);
      append_member(out, "arguments", has_begun ? std::string_view() : std::string_view(item.text));
      break;
  }
  out += '}';
}

ChatMessage message_of(const OutputItem& item) {
  ChatMessage message{.role = "assistant"};
  switch (item.kind) {
    case OutputItem::Kind::reasoning:
      message.reasoning = item.text;
      break;
    case OutputItem::Kind::message:
      message.content = item.text;
      break;
    case OutputItem::Kind::call:
      message.tool_calls.push_back({.id = item.call_id, .name = item.name, .arguments = item.text});
      break;
  }
  return message;
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Takes the parts of an answer, and writes the events of its items where they are asked for.
class ResponseWriter {
 public:
  ResponseWriter(ResponseHead head, KeepResponse keep, std::shared_ptr<MemoryBudget> memory, bool has_events)
      : head_(std::move(head)), keep_(std::move(keep)), memory_(std::move(memory)), has_events_(has_events) {}

  void begin(std::string& out) {
    if (std::exchange(has_begun_, true)) return;
    for (const std::string_view type : {"response.created", "response.in_progress"}) {
      event(out, type, [&] { return response_member("in_progress", {}, {}); });
    }
  }

  void add(std::string& out, const AnswerDelta& delta) {
    begin(out);
    if (!delta.reasoning.empty()) {
      add_text(out, OutputItem::Kind::reasoning, delta.reasoning);
      waiting_scores_.clear();
    }
    // Of reasoning and calls nobody asks for scores; those of tokens without a text belong to the next text.
    const bool has_other = !delta.reasoning.empty() || !delta.tool_calls.empty();
    if (!delta.text.empty() || !has_other) {
      waiting_scores_.insert(waiting_scores_.end(), delta.scores.begin(), delta.scores.end());
    }
    // Behind the end of a call there may be text, in the same delta.
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (call.name.empty()) add_call(out, call);
    }
    if (!delta.text.empty()) add_text(out, OutputItem::Kind::message, delta.text);
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (!call.name.empty()) add_call(out, call);
    }
    if (!delta.finish_reason.empty()) finish_reason_ = delta.finish_reason;
  }

  /// The finished response.
  std::string end(std::string& out, const AnswerUsage& usage) {
    begin(out);
    const bool is_complete = finish_reason_ != "length";
    if (items_.empty() || (is_complete && items_.back().kind == OutputItem::Kind::reasoning)) {
      open(out, OutputItem::Kind::message);
    }
    close(out, is_complete ? "completed" : "incomplete");
    const std::string_view status = is_complete ? "completed" : "incomplete";
    std::string json = response(status, usage_json(usage), {});
    if (head_.is_stored && !is_kept(json)) {
      head_.is_stored = false;
      json = response(status, usage_json(usage), {});
    }
    event(out, is_complete ? "response.completed" : "response.incomplete", [&] { return R"(,"response":)" + json; });
    return json;
  }

  void fail(std::string& out, const Error& error) {
    begin(out);
    const std::string_view code =
        error.code() == ErrorCode::resource_exhausted ? "rate_limit_exceeded" : "server_error";
    std::string problem = fmt::format(R"({{"code":"{}","message":)", code);
    append_json_string(problem, error.message());
    head_.is_stored = false;
    if (is_open_) last_status_ = "incomplete";
    event(out, "response.failed", [&] { return response_member("failed", {}, problem + "}"); });
  }

 private:
  // `members`: makes those behind the number, with a comma first.
  template <typename Members>
  void event(std::string& out, std::string_view type, const Members& members) {
    if (!has_events_) return;
    out += fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1}", type, sequence_++);
    out += members();
    out += "}\n\n";
  }

  // An event of the item that is open.
  template <typename Members>
  void item_event(std::string& out, std::string_view type, const Members& members) {
    event(out, type, [&] {
      return fmt::format(R"(,"output_index":{},"item_id":"{}")", items_.size() - 1, items_.back().id) + members();
    });
  }

  void open(std::string& out, OutputItem::Kind kind, const ToolCallDelta& call = {}) {
    close(out, "completed");
    is_open_ = true;
    items_.push_back({.kind = kind, .id = random_id(prefix_of(kind)), .call_id = call.id, .name = call.name});
    const auto function = head_.functions.find(call.name);
    if (function != head_.functions.end()) items_.back().group = function->second;
    output_item_event(out, "response.output_item.added", "in_progress");
    if (kind != OutputItem::Kind::call) part_event(out, "response.content_part.added");
  }

  void output_item_event(std::string& out, std::string_view type, std::string_view status) {
    event(out, type, [&] {
      std::string members = fmt::format(R"(,"output_index":{},"item":)", items_.size() - 1);
      append_item(members, items_.back(), status);
      return members;
    });
  }

  void part_event(std::string& out, std::string_view type) {
    item_event(out, type, [&] {
      std::string members = R"(,"content_index":0,"part":)";
      append_part(members, items_.back(), items_.back().text);
      return members;
    });
  }

  void add_text(std::string& out, OutputItem::Kind kind, const std::string& text) {
    if (!is_open_ || items_.back().kind != kind) open(out, kind);
    OutputItem& item = items_.back();
    item.text += text;
    const bool is_message = kind == OutputItem::Kind::message;
    const std::string scores = is_message ? take_scores() : std::string();
    item_event(out, is_message ? "response.output_text.delta" : "response.reasoning_text.delta", [&] {
      std::string members = R"(,"content_index":0)";
      append_member(members, "delta", text);
      if (is_message) members += fmt::format(R"(,"logprobs":[{}])", scores);
      return members;
    });
  }

  // Those that wait, as JSON; they are noted as the item's.
  std::string take_scores() {
    std::string json;
    append_token_scores(json, std::exchange(waiting_scores_, {}));
    std::string& all = items_.back().scores;
    if (!all.empty() && !json.empty()) all += ',';
    all += json;
    return json;
  }

  void add_call(std::string& out, const ToolCallDelta& call) {
    if (!call.name.empty()) open(out, OutputItem::Kind::call, call);
    waiting_scores_.clear();
    if (call.arguments.empty()) return;
    items_.back().text += call.arguments;
    item_event(out, "response.function_call_arguments.delta", [&] {
      std::string members;
      append_member(members, "delta", call.arguments);
      return members;
    });
  }

  void close(std::string& out, std::string_view status) {
    if (!is_open_) return;
    const OutputItem& item = items_.back();
    switch (item.kind) {
      case OutputItem::Kind::reasoning:
        item_event(out, "response.reasoning_text.done", [&] {
          std::string members = R"(,"content_index":0)";
          append_member(members, "text", item.text);
          return members;
        });
        part_event(out, "response.content_part.done");
        break;
      case OutputItem::Kind::message:
        close_message(out);
        break;
      case OutputItem::Kind::call:
        item_event(out, "response.function_call_arguments.done", [&] {
          std::string members;
          append_member(members, "name", item.name);
          append_member(members, "arguments", item.text);
          return members;
        });
        break;
    }
    output_item_event(out, "response.output_item.done", status);
    // Others are complete: only the last one may be cut off.
    last_status_ = status;
    is_open_ = false;
  }

  void close_message(std::string& out) {
    const OutputItem& item = items_.back();
    // Tokens that have no text of their own: those of a text that ended the answer.
    if (!waiting_scores_.empty()) add_text(out, OutputItem::Kind::message, "");
    item_event(out, "response.output_text.done", [&] {
      std::string members = R"(,"content_index":0)";
      append_member(members, "text", item.text);
      return members + fmt::format(R"(,"logprobs":[{}])", item.scores);
    });
    part_event(out, "response.content_part.done");
  }

  [[nodiscard]] std::string response_member(std::string_view status, std::string_view usage,
                                            std::string_view error) const {
    return R"(,"response":)" + response(status, usage, error);
  }

  // `usage`, `error`: JSON; empty: null.
  [[nodiscard]] std::string response(std::string_view status, std::string_view usage, std::string_view error) const {
    std::string out = fmt::format(R"({{"id":"{}","object":"response","created_at":{},"status":"{}","background":false)",
                                  head_.id, head_.created, status);
    const bool is_complete = status == "completed";
    out += is_complete ? fmt::format(R"(,"completed_at":{})", seconds_now()) : R"(,"completed_at":null)";
    out += fmt::format(R"(,"error":{},"incomplete_details":{},"model":)", error.empty() ? "null" : error,
                       status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null");
    append_json_string(out, head_.model);
    out += R"(,"output":[)";
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (i != 0) out += ',';
      const bool is_last = i + 1 == items_.size();
      append_item(out, items_[i], is_last ? last_status_ : "completed");
    }
    out += ']';
    out += *head_.repeated;
    return out + fmt::format(R"(,"store":{},"usage":{}}})", head_.is_stored, usage.empty() ? "null" : usage);
  }

  static std::string usage_json(const AnswerUsage& usage) {
    return fmt::format(
        R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}})",
        usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens, usage.reasoning_tokens,
        usage.prompt_tokens + usage.generated_tokens);
  }

  // Not where there is no memory for it: the answer is there all the same.
  [[nodiscard]] bool is_kept(const std::string& json) const {
    try {
      return keep_(json, kept_items());
    } catch (const Error&) {
      return false;
    }
  }

  [[nodiscard]] ConversationItems kept_items() const {
    ConversationItems kept;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      std::string json;
      append_item(json, items_[i], i + 1 == items_.size() ? last_status_ : "completed");
      kept.push_back(std::make_shared<const ConversationItem>(items_[i].id, std::move(json), message_of(items_[i]),
                                                              MemoryShare(memory_)));
    }
    return kept;
  }

  ResponseHead head_;
  KeepResponse keep_;
  std::shared_ptr<MemoryBudget> memory_;
  const bool has_events_;
  std::size_t sequence_ = 0;
  bool has_begun_ = false, is_open_ = false;
  std::vector<OutputItem> items_;
  std::vector<TokenScore> waiting_scores_;
  std::string finish_reason_;
  std::string_view last_status_ = "in_progress";  // of the last item
};

class ResponseEvents : public AnswerEvents {
 public:
  ResponseEvents(ResponseHead head, KeepResponse keep, std::shared_ptr<MemoryBudget> memory)
      : share_(memory), memory_(memory), writer_(std::move(head), std::move(keep), std::move(memory), true) {}

  [[nodiscard]] std::string_view content_type() const noexcept override { return "text/event-stream; charset=utf-8"; }

  [[nodiscard]] std::string_view keep_alive() const noexcept override { return ": the answer is being prepared\n\n"; }

  // The last events repeat the text: an item's content as text, as a part, in the item and in the response.
  void hold(const AnswerDelta& delta) override {
    constexpr std::uint64_t copies = 6;
    grow_share(share_, memory_, copies * (delta.bytes() - AnswerDelta{}.bytes()), "the answer");
  }

  void append(std::string& out, const AnswerDelta& delta) override { writer_.add(out, delta); }

  void append_end(std::string& out, const AnswerUsage& usage) override { (void)writer_.end(out, usage); }

  void append_error(std::string& out, const Error& error) override { writer_.fail(out, error); }

 private:
  MemoryShare share_;
  std::shared_ptr<MemoryBudget> memory_;
  ResponseWriter writer_;
};

}  // namespace

std::string response_json(const ResponseHead& head, const std::vector<AnswerDelta>& parts, const AnswerUsage& usage,
                          const KeepResponse& keep, const std::shared_ptr<MemoryBudget>& memory) {
  ResponseWriter writer(head, keep, memory, false);
  std::string none;
  for (const AnswerDelta& part : parts) writer.add(none, part);
  return writer.end(none, usage);
}

std::unique_ptr<AnswerEvents> response_events(ResponseHead head, KeepResponse keep,
                                              std::shared_ptr<MemoryBudget> memory) {
  return std::make_unique<ResponseEvents>(std::move(head), std::move(keep), std::move(memory));
}

}  // namespace gpux::server::responses
