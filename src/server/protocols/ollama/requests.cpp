#include "server/protocols/ollama/requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "generation/response_format.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/text_inputs.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

// Digits with one dot at most, off the text.
bool take_number(std::string_view& text, bool& is_zero) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
  if (number.find_first_of("0123456789") == std::string_view::npos || std::ranges::count(number, '.') > 1) return false;
  is_zero = is_zero && number.find_first_of("123456789") == std::string_view::npos;
  text.remove_prefix(number.size());
  return true;
}

bool take_unit(std::string_view& text) {
  for (const std::string_view unit : {"ns", "us", "µs", "ms", "s", "m", "h"}) {
    if (!text.starts_with(unit)) continue;
    text.remove_prefix(unit.size());
    return true;
  }
  return false;
}

// Models stay loaded: nothing has to be done for that.
void read_keep_alive(Members& members) {
  const RequestJson* value = members.find("keep_alive");
  if (value == nullptr) return;
  std::optional<bool> is_zero;
  if (value->is_number()) is_zero = value->get<double>() == 0;
  if (value->is_string()) is_zero = is_zero_duration(value->get_ref<const std::string&>());
  if (!is_zero) refuse_member("keep_alive", "is neither a number of seconds nor a duration as 5m");
  if (*is_zero) {
    refuse_member("keep_alive", "is 0: models stay loaded here; POST /v2/repository/models/NAME/unload unloads one");
  }
}

// -1 and -2: as long as the context allows.
void read_max_tokens(Members& options, GenerationSettings& settings) {
  const RequestJson* value = options.find("num_predict");
  const bool is_unlimited = value != nullptr && value->is_number_integer() && (*value == -1 || *value == -2);
  if (!is_unlimited) settings.max_tokens = options.count("num_predict");
}

void read_options(Members& members, OllamaSettings& read) {
  const RequestJson* value = members.find("options");
  if (value == nullptr) return;
  Members options(*value, "options");
  read_common_sampling(options, read.settings);
  if (const auto penalty = options.number("repeat_penalty")) {
    read.settings.repetition_penalty = static_cast<float>(*penalty);
  }
  const RequestJson* last = options.find("repeat_last_n");
  if (last != nullptr && *last != -1) {
    refuse_member("options.repeat_last_n", ": repeat_penalty counts all tokens; accepted: -1");
  }
  read_max_tokens(options, read.settings);
  read.context_length = options.count("num_ctx");
  options.refuse_others();
  check_settings(read.settings);
}

void read_think(Members& members, OllamaSettings& read) {
  const RequestJson* think = members.find("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    read.thinks = think->get<bool>();
    return;
  }
  if (!think->is_string()) refuse_member("think", "is neither true nor false; accepted, too: low, medium, high");
  (void)members.choice("think", {"low", "medium", "high"});
  read.thinks = true;
  read.thinking_level = think->get<std::string>();
}

OllamaSettings read_general(Members& members, std::string_view body) {
  OllamaSettings read;
  read.model = members.text("model");
  read.is_streamed = members.flag("stream", true);
  read_options(members, read);
  read_think(members, read);
  read_keep_alive(members);
  // Ollama leaves messages or tokens out there, without a word.
  for (const char* name : {"truncate", "shift"}) {
    if (members.flag(name, false)) refuse_member(name, ": nothing is left out of a prompt; accepted: false");
  }
  if (members.find("format") != nullptr) {
    // Read once more, in order.
    read.settings.constraint =
        generation::read_ollama_constraint(fmt::format(R"({{"format":{}}})", member_text(body, "format")));
  }
  return read;
}

void refuse_images(Members& members) {
  const RequestJson* images = members.find("images");
  if (images == nullptr || (images->is_array() && images->empty())) return;
  refuse_member(members.name_of("images"), ": models that generate text take no images here");
}

// `text` is the call as it is written: the order of arguments counts.
ToolCall read_call(const RequestJson& value, std::string_view text, const std::string& place) {
  Members members(value, place);
  ToolCall call;
  call.id = members.text("id");
  (void)members.choice("type", {"function"});
  Members function(members.must_find("function"), place + ".function");
  function.must_find("name");
  call.name = function.text("name");
  (void)function.whole("index");
  (void)function.text("description");
  const RequestJson* arguments = function.find("arguments");
  if (arguments != nullptr && !arguments->is_object()) {
    refuse_member(function.name_of("arguments"), "is no object");
  }
  if (arguments != nullptr) call.arguments = member_text(member_text(text, "function"), "arguments");
  function.refuse_others();
  members.refuse_others();
  return call;
}

void read_calls(Members& message, std::string_view text, ChatMessage& read) {
  const RequestJson* calls = message.find("tool_calls");
  if (calls == nullptr) return;
  const std::string place = message.name_of("tool_calls");
  if (!calls->is_array()) refuse_member(place, "is no list");
  const std::vector<std::string_view> texts = split_array(member_text(text, "tool_calls"));
  for (std::size_t i = 0; i < calls->size() && i < texts.size(); ++i) {
    read.tool_calls.push_back(read_call((*calls)[i], texts[i], fmt::format("{}[{}]", place, i)));
  }
}

ChatMessage read_message(const RequestJson& value, std::string_view text, const std::string& place,
                         const std::vector<ChatMessage>& earlier) {
  Members message(value, place);
  message.must_find("role");
  (void)message.choice("role", {"system", "user", "assistant", "tool"});
  ChatMessage read;
  read.role = message.text("role");
  read.content = message.text("content");
  refuse_images(message);
  if (read.role == "assistant") {
    read.reasoning = message.text("thinking");
    read_calls(message, text, read);
  }
  if (read.role == "tool") {
    read.tool_call_id = message.text("tool_call_id");
    read.name = message.text("tool_name");
    if (read.name.empty()) read.name = message.text("name");
    if (read.name.empty()) read.name = called_function(earlier, read.tool_call_id);
  }
  message.refuse_others();
  return read;
}

void read_messages(Members& members, std::string_view body, std::vector<ChatMessage>& messages) {
  const RequestJson* list = members.find("messages");
  if (list == nullptr) return;
  if (!list->is_array()) refuse_member("messages", "is no list");
  const std::vector<std::string_view> texts = split_array(member_text(body, "messages"));
  for (std::size_t i = 0; i < list->size() && i < texts.size(); ++i) {
    messages.push_back(read_message((*list)[i], texts[i], fmt::format("messages[{}]", i), messages));
  }
}

// Options of generated texts change no vector.
void refuse_embed_options(Members& members) {
  const RequestJson* options = members.find("options");
  if (options == nullptr || (options->is_object() && options->empty())) return;
  refuse_member("options", ": vectors have none here");
}

}  // namespace

std::optional<bool> is_zero_duration(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  bool is_zero = true;
  if (!take_number(text, is_zero)) return std::nullopt;
  if (text.empty()) return is_zero;
  for (;;) {
    if (!take_unit(text)) return std::nullopt;
    if (text.empty()) return is_zero;
    if (!take_number(text, is_zero)) return std::nullopt;
  }
}

OllamaChat read_ollama_chat(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation, BodyObjects::conversation);
  Members members(json, "");
  OllamaChat read;
  read.general = read_general(members, body);
  read_messages(members, body, read.conversation.messages);
  read.conversation.tools = read_tools(members, body);
  members.refuse_others();
  return read;
}

OllamaGenerate read_ollama_generate(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation, BodyObjects::conversation);
  Members members(json, "");
  OllamaGenerate read;
  read.general = read_general(members, body);
  read.prompt = members.text("prompt");
  read.system = members.text("system");
  read.is_raw = members.flag("raw", false);
  if (read.is_raw && !read.system.empty()) refuse_member("raw", "and system are both there; accepted: one of them");
  if (read.is_raw && read.general.thinks) refuse_member("raw", "and think are both there; accepted: one of them");
  if (!members.text("suffix").empty()) refuse_member("suffix", ": texts are continued at their end only");
  if (!members.text("template").empty()) refuse_member("template", ": the model's own is used; raw uses none");
  members.refuse("context", "accepted are the messages of /api/chat");
  refuse_images(members);
  members.refuse_others();
  return read;
}

OllamaEmbed read_ollama_embed(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation);
  Members members(json, "");
  OllamaEmbed read;
  read.model = members.text("model");
  members.must_find("input");
  read.texts = members.texts("input");
  check_count(read.texts.size(), "input");
  read.dimensions = members.count("dimensions");
  read.truncate = members.flag("truncate", true);
  read_keep_alive(members);
  refuse_embed_options(members);
  members.refuse_others();
  return read;
}

OllamaEmbed read_ollama_embeddings(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation);
  Members members(json, "");
  OllamaEmbed read;
  read.model = members.text("model");
  members.must_find("prompt");
  read.texts = {members.text("prompt")};
  read_keep_alive(members);
  refuse_embed_options(members);
  members.refuse_others();
  return read;
}

std::string read_ollama_show(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation);
  Members members(json, "");
  const std::string model = members.text("model"), name = members.text("name");
  (void)members.flag("verbose", false);
  // Ollama's own program sends them empty.
  for (const char* text : {"system", "template"}) {
    if (!members.text(text).empty()) refuse_member(text, ": a model is shown as it is served; accepted: an empty text");
  }
  const RequestJson* options = members.find("options");
  if (options != nullptr && !(options->is_object() && options->empty())) {
    refuse_member("options", ": a model is shown as it is served; accepted: an empty object");
  }
  members.refuse_others();
  return model.empty() ? name : model;
}

}  // namespace gpux::server
