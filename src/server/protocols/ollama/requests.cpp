#include "server/protocols/ollama/requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "generation/reasoning_request.h"
#include "generation/response_format.h"
#include "server/protocols/called_function.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/ollama/operations.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"
#include "server/protocols/tool_requests.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using namespace openapi;
using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 3> thinking_levels{"low", "medium", "high"};  // as efforts are called
constexpr std::size_t max_log_probabilities = 20;
constexpr std::array<std::string_view, 4> roles{"system", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 1> call_types{"function"};

// What would change the answer.
constexpr std::array<Field, 2> refused_sampling_table{{
    refused_field("mirostat", "there is no such sampling here; accepted: 0", "0"),
    refused_field("tfs_z", "there is no such sampling here; accepted: 1", "1"),
}};

constexpr std::array<Field, 3> refused_option_table{{
    refused_field("rope_frequency_base", "the model's own is used"),
    refused_field("rope_frequency_scale", "the model's own is used"),
    refused_field("num_gqa", "the model's own is used"),
}};

// Threads, devices and memory of Ollama, what is kept when it shifts a context, and the parameters of mirostat.
constexpr std::array<Field, 15> ignored_option_table{{
    ignored_field("num_gpu"),
    ignored_field("main_gpu"),
    ignored_field("num_thread"),
    ignored_field("num_batch"),
    ignored_field("num_keep"),
    ignored_field("low_vram"),
    ignored_field("f16_kv"),
    ignored_field("use_mmap"),
    ignored_field("use_mlock"),
    ignored_field("numa"),
    ignored_field("vocab_only"),
    ignored_field("logits_all"),
    ignored_field("mirostat_eta"),
    ignored_field("mirostat_tau"),
    ignored_field("penalize_newline"),
}};

constexpr Field context_field{"num_ctx", count};

constexpr std::array<Field, 4> own_option_table{{
    {"num_predict", count, optional, [](const ServedList&) { return whole_from(-2, INT32_MAX); }},
    context_field,
    {"repeat_penalty", number, optional, penalty_factor},
    {"repeat_last_n", other, optional, [](const ServedList&) { return whole_from(-1, INT32_MAX); }},
}};

std::span<const Field> option_fields() {
  static const std::vector<Field> fields = joined(
      {common_sampling_fields(), own_option_table, ignored_option_table, refused_sampling_table, refused_option_table});
  return fields;
}

// How texts are generated changes no vector.
std::span<const Field> embed_option_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> made = joined({std::array{context_field}, refused_option_table});
    for (const Field& option : option_fields()) {
      const bool has_field = std::ranges::find(made, option.name, &Field::name) != made.end();
      if (!has_field) made.push_back(ignored_field(option.name));
    }
    return made;
  }();
  return fields;
}

Json options_schema(const ServedList& models) {
  return or_null(object_schema(option_fields(), models));
}

Json embed_options_schema(const ServedList& models) {
  return or_null(object_schema(embed_option_fields(), models));
}

Json format_schema(const ServedList&) {
  return or_null({{"anyOf", Json::array({{{"const", "json"}}, {{"type", "object"}}})}});
}

Json think_schema(const ServedList&) {
  return or_null({{"anyOf", Json::array({{{"type", "boolean"}}, {{"enum", thinking_levels}}})}});
}

Json keep_alive_schema(const ServedList&) {
  return or_null({{"type", Json::array({"string", "number"})}});
}

constexpr Field model_field{"model", text, optional, model_names};
constexpr Field images_field{"images", other, optional, only_empty_list};

constexpr std::array<Field, 10> general_table{{
    {"logprobs", flag},
    {"top_logprobs", whole, optional, nullptr, {}, max_log_probabilities},
    model_field,
    {"stream", flag},
    {"options", other, optional, options_schema},
    {"format", other, optional, format_schema},
    {"think", other, optional, think_schema, thinking_levels},
    {"truncate", flag, optional, only_false},
    {"shift", flag, optional, only_false},
    {"keep_alive", other, optional, keep_alive_schema},
}};

// What ollama-ai-provider-v2 writes beside the options, with the members of common_sampling_fields().
constexpr std::array<Field, 3> beside_table{
    {{"max_tokens", count}, {"max_output_tokens", count}, ignored_field("user")}};

constexpr std::array<Field, 3> message_table{
    {{"role", choice, required, nullptr, roles}, {"content", text}, images_field}};
constexpr std::array<Field, 2> assistant_table{{{"thinking", text}, {"tool_calls", other}}};
constexpr std::array<Field, 3> tool_table{{{"tool_call_id", text}, {"tool_name", text}, {"name", text}}};

constexpr std::array<Field, 3> call_table{{
    {"id", text},
    {"type", choice, optional, nullptr, call_types},
    {"function", object, required},
}};

constexpr std::array<Field, 4> called_table{{
    {"name", text, required},
    {"index", whole},
    {"description", text},
    {"arguments", other},
}};

constexpr std::array<Field, 2> chat_table{{
    {"messages", other, optional, ollama::messages_schema},
    {"tools", other, optional, tools},
}};

Json context_schema(const ServedList& models) {
  return or_null(list(token_schema(models), 0, max_text_tokens));
}

constexpr std::array<Field, 7> generate_table{{
    {"prompt", text},
    {"system", text},
    {"raw", flag},
    {"suffix", text},
    {"template", text, optional, only_empty_text},
    {"context", other, optional, context_schema},
    images_field,
}};

// Models stay loaded, and options of generated texts change no vector.
constexpr std::array<Field, 2> unused_table{
    {{"keep_alive", other, optional, keep_alive_schema}, {"options", other, optional, embed_options_schema}}};

Json input_schema(const ServedList&) {
  const Json one{{"type", "string"}};
  return {{"anyOf", Json::array({one, list(one, 1, max_texts)})}};
}

constexpr std::array<Field, 4> embed_table{{
    model_field,
    {"input", texts, required, input_schema},
    {"truncate", flag},
    {"dimensions", count},
}};

constexpr std::array<Field, 2> older_embed_table{{model_field, {"prompt", text, required}}};

constexpr std::array<Field, 6> show_table{{
    model_field,
    {"verbose", flag},
    {"name", text, optional, model_names},
    {"system", text, optional, only_empty_text},
    {"template", text, optional, only_empty_text},
    {"options", other, optional, only_empty_object},
}};

// -1 and -2: as long as the context allows.
void read_max_tokens(Members& options, GenerationSettings& settings) {
  const RequestJson* value = options.find("num_predict");
  if (value == nullptr) return;
  const bool is_unlimited = value->is_number_integer() && (*value == -1 || *value == -2);
  settings.max_tokens = is_unlimited ? 0 : options.count("num_predict");
}

// -1: all tokens; 0: none, as without a penalty.
void read_repetition_window(Members& options, GenerationSettings& settings) {
  const RequestJson* value = options.find("repeat_last_n");
  if (value == nullptr || (value->is_number_integer() && *value == -1)) return;
  const std::optional<std::uint64_t> count = whole_number(*value);
  if (!count) refuse_member(options.name_of("repeat_last_n"), "is no number of tokens; accepted: -1, 0 and more");
  if (*count == 0) settings.repetition_penalty = 1.F;
  settings.repetition_window = *count;
}

// Those in "options" come first.
void read_beside_options(Members& members, GenerationSettings& settings) {
  read_common_sampling(members, settings);
  settings.max_tokens = std::max(members.count("max_tokens"), members.count("max_output_tokens"));
  check_settings(settings);
}

void read_options(Members& members, OllamaSettings& read, GenerationSettings& settings) {
  read_beside_options(members, settings);
  const RequestJson* value = members.find("options");
  if (value == nullptr) return;
  Members options = members.inside(*value, "options", option_fields());
  read_common_sampling(options, settings);
  if (const auto penalty = options.number("repeat_penalty")) {
    settings.repetition_penalty = static_cast<float>(*penalty);
  }
  read_repetition_window(options, settings);
  read_max_tokens(options, settings);
  read.context_length = options.count("num_ctx");
  options.finish();
  check_settings(settings);
}

void read_think(Members& members, OllamaSettings& read) {
  const RequestJson* think = members.find("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    read.reasoning = think->get<bool>() ? ReasoningEffort::usual : ReasoningEffort::none;
    return;
  }
  if (!think->is_string()) refuse_member("think", "is neither true nor false; accepted, too: low, medium, high");
  if (const auto which = members.choice("think")) {
    read.reasoning = generation::effort_named(thinking_levels.at(*which));
  }
}

// `settings`: the settings in "options" and "format".
OllamaSettings read_general(Members& members, std::string_view body, GenerationSettings& settings) {
  OllamaSettings read;
  read.model = members.text("model");
  read.is_streamed = members.flag("stream", true);
  read_options(members, read, settings);
  settings.log_probabilities = members.flag("logprobs", false);
  const auto count = members.whole("top_logprobs");
  if (count && *count != 0 && !settings.log_probabilities) {
    refuse_member("top_logprobs", "is for answers with logprobs: true");
  }
  settings.top_log_probabilities = static_cast<std::uint32_t>(count.value_or(0));
  read_think(members, read);
  read.keep_alive = read_keep_alive(members);
  // Ollama leaves messages or tokens out there, without a word.
  for (const char* name : {"truncate", "shift"}) {
    if (members.flag(name, false)) refuse_member(name, ": nothing is left out of a prompt; accepted: false");
  }
  if (members.find("format") != nullptr) {
    // Read once more, in order.
    settings.constraint =
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
ToolCall read_call(const RequestJson& value, std::string_view text, const std::string& place, MemberRules* rules) {
  Members members(value, place, call_table, rules);
  ToolCall call;
  call.id = members.text("id");
  members.ignore("type");
  Members function = members.inside(members.must_find("function"), place + ".function", called_table);
  call.name = function.text("name");
  function.ignore("index");
  function.ignore("description");
  const RequestJson* arguments = function.find("arguments");
  if (arguments != nullptr && !arguments->is_object() && !arguments->is_string()) {
    refuse_member(function.name_of("arguments"), "is neither an object nor a text");
  }
  if (arguments != nullptr) call.arguments = member_text(member_text(text, "function"), "arguments");
  function.finish();
  members.finish();
  return call;
}

void read_calls(Members& message, std::string_view text, ChatMessage& read) {
  const RequestJson* calls = message.find("tool_calls");
  if (calls == nullptr) return;
  const std::string place = message.name_of("tool_calls");
  if (!calls->is_array()) refuse_member(place, "is no list");
  const std::vector<std::string_view> texts = split_array(member_text(text, "tool_calls"));
  for (std::size_t i = 0; i < calls->size() && i < texts.size(); ++i) {
    read.tool_calls.push_back(read_call((*calls)[i], texts[i], fmt::format("{}[{}]", place, i), message.rules()));
  }
}

ChatMessage read_message(const RequestJson& value, std::string_view text, const std::string& place,
                         const std::vector<ChatMessage>& earlier, MemberRules* rules) {
  Members message(value, place, message_table, rules);
  message.ignore("role");
  ChatMessage read;
  read.role = message.text("role");
  read.content = message.text("content");
  refuse_images(message);
  if (read.role == "assistant") {
    message.also(assistant_table);
    read.reasoning = message.text("thinking");
    read_calls(message, text, read);
  }
  if (read.role == "tool") {
    message.also(tool_table);
    read.tool_call_id = message.text("tool_call_id");
    read.name = message.text("tool_name");
    if (read.name.empty()) read.name = message.text("name");
    if (read.name.empty()) read.name = called_function(earlier, read.tool_call_id);
  }
  message.finish();
  return read;
}

void read_messages(Members& members, std::string_view body, std::vector<ChatMessage>& messages) {
  const RequestJson* list = members.find("messages");
  if (list == nullptr) return;
  if (!list->is_array()) refuse_member("messages", "is no list");
  const std::vector<std::string_view> texts = split_array(member_text(body, "messages"));
  for (std::size_t i = 0; i < list->size() && i < texts.size(); ++i) {
    messages.push_back(read_message((*list)[i], texts[i], fmt::format("messages[{}]", i), messages, members.rules()));
  }
}

void read_context(Members& members, OllamaGenerate& read) {
  const RequestJson* tokens = members.find("context");
  if (tokens == nullptr) return;
  if (!tokens->is_array()) refuse_member("context", "is no list of tokens");
  if (tokens->size() > max_text_tokens) {
    refuse_member("context", fmt::format("has {} tokens; accepted: at most {}", tokens->size(), max_text_tokens));
  }
  for (const RequestJson& token : *tokens) {
    const auto number = whole_number(token);
    if (!number || *number > UINT32_MAX) {
      refuse_member(fmt::format("context[{}]", read.context.size()), "is no token's number");
    }
    read.context.push_back(static_cast<std::uint32_t>(*number));
  }
  if (read.is_raw && !read.context.empty()) {
    refuse_member("raw", "and context are both there; accepted: one of them");
  }
}

// The tokens of a text's context; 0: not given.
std::size_t read_embed_options(Members& members) {
  const RequestJson* value = members.find("options");
  if (value == nullptr) return 0;
  Members options = members.inside(*value, "options", embed_option_fields());
  const std::size_t context = options.count("num_ctx");
  options.finish();
  return context;
}

}  // namespace

std::span<const Field> ollama::chat_fields() {
  static const std::vector<Field> fields =
      joined({general_table, common_sampling_fields(), beside_table, chat_table, tool_choice_fields()});
  return fields;
}

OllamaChat read_ollama_chat(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", ollama::chat_fields(), reading.rules);
  OllamaChat read;
  read.general = read_general(members, body, read.chat.settings);
  read_messages(members, body, read.chat.messages);
  read_tool_choice(members, read_tools(members, body, read.chat.options), read.chat.options);
  // As in Ollama, whose templates leave such a message open.
  const std::vector<ChatMessage>& messages = read.chat.messages;
  read.chat.options.continues_last_message = !messages.empty() && messages.back().role == "assistant" &&
                                             !messages.back().content.empty() && messages.back().tool_calls.empty() &&
                                             read.chat.settings.constraint.kind == OutputConstraint::Kind::none;
  members.finish();
  return read;
}

std::span<const Field> ollama::generate_fields() {
  static const std::vector<Field> fields =
      joined({general_table, common_sampling_fields(), beside_table, generate_table});
  return fields;
}

OllamaGenerate read_ollama_generate(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", ollama::generate_fields(), reading.rules);
  OllamaGenerate read;
  read.general = read_general(members, body, read.settings);
  read.prompt = members.text("prompt");
  read.system = members.text("system");
  read.is_raw = members.flag("raw", false);
  if (read.is_raw && !read.system.empty()) refuse_member("raw", "and system are both there; accepted: one of them");
  if (read.is_raw && read.general.reasoning) refuse_member("raw", "and think are both there; accepted: one of them");
  read_context(members, read);
  read.suffix = members.text("suffix");
  if (!read.suffix.empty() && !read.system.empty()) {
    refuse_member("suffix", "and system are both there; accepted: one of them");
  }
  if (!read.suffix.empty() && !read.context.empty()) {
    refuse_member("suffix", "and context are both there; accepted: one of them");
  }
  if (!members.text("template").empty()) refuse_member("template", ": the model's own is used; raw uses none");
  refuse_images(members);
  members.finish();
  return read;
}

std::span<const Field> ollama::embed_fields() {
  static const std::vector<Field> fields = joined({embed_table, unused_table});
  return fields;
}

OllamaEmbed read_ollama_embed(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", ollama::embed_fields(), reading.rules);
  OllamaEmbed read;
  read.model = members.text("model");
  read.texts = members.texts("input");
  check_count(read.texts.size(), "input");
  read.dimensions = members.count("dimensions");
  read.truncate = members.flag("truncate", true);
  read.keep_alive = read_keep_alive(members);
  read.context_length = read_embed_options(members);
  members.finish();
  return read;
}

std::span<const Field> ollama::older_embed_fields() {
  static const std::vector<Field> fields = joined({older_embed_table, unused_table});
  return fields;
}

OllamaEmbed read_ollama_embeddings(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", ollama::older_embed_fields(), reading.rules);
  OllamaEmbed read;
  read.model = members.text("model");
  read.texts = {members.text("prompt")};
  read.keep_alive = read_keep_alive(members);
  read.context_length = read_embed_options(members);
  members.finish();
  return read;
}

std::span<const Field> ollama::show_fields() {
  return show_table;
}

std::string read_ollama_show(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", ollama::show_fields(), reading.rules);
  const std::string model = members.text("model"), name = members.text("name");
  members.ignore("verbose");
  // Ollama's own program sends them empty.
  for (const char* text : {"system", "template"}) {
    if (!members.text(text).empty()) refuse_member(text, ": a model is shown as it is served; accepted: an empty text");
  }
  const RequestJson* options = members.find("options");
  if (options != nullptr && !(options->is_object() && options->empty())) {
    refuse_member("options", ": a model is shown as it is served; accepted: an empty object");
  }
  members.finish();
  return model.empty() ? name : model;
}

}  // namespace gpux::server
