#include "server/protocols/generation_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "generation/response_format.h"
#include "generation/settings.h"
#include "gpux/error.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using namespace openapi;
using enum FieldKind;
using enum FieldUse;

constexpr std::array<const char*, 6> constraint_members{"response_format", "guided_json",    "guided_regex",
                                                        "guided_choice",   "guided_grammar", "structured_outputs"};

constexpr std::size_t max_stop_tokens = 1024;
constexpr std::size_t max_bad_words = 256, max_bad_word_bytes = 256;

Json share_schema(const ServedList&) {
  return share();
}

Json penalty_schema(const ServedList&) {
  return number_from(-2, 2);
}

Json stop_schema(const ServedList&) {
  constexpr std::size_t max_stops = 64, max_stop_bytes = 1024 / 4;
  const Json stop{{"type", "string"}, {"minLength", 1}, {"maxLength", max_stop_bytes}};
  return or_null({{"anyOf", Json::array({stop, list(stop, 0, max_stops)})}});
}

Json bias_schema(const ServedList&) {
  return or_null(
      {{"type", "object"}, {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}});
}

constexpr std::array<Field, 9> sampling_table{{
    {"temperature", number, optional, [](const ServedList&) { return number_from(0, 100); }},
    {"top_p", number, optional, share_schema},
    {"min_p", number, optional, [](const ServedList&) { return number_from(0, 1); }},
    {"typical_p", number, optional, share_schema},
    {"top_k", other, optional, [](const ServedList&) { return whole_from(-1, INT32_MAX); }},
    {"presence_penalty", number, optional, penalty_schema},
    {"frequency_penalty", number, optional, penalty_schema},
    {"seed", other, optional, [](const ServedList&) { return whole_from(INT64_MIN, INT64_MAX); }},
    {"stop", texts, optional, stop_schema},
}};

constexpr std::array<Field, 19> openai_table{{
    {"model", text, optional, model_names},
    {"n", count, optional, [](const ServedList&) { return whole_from(1, max_answers); }},
    {"min_tokens", whole},
    {"repetition_penalty", number, optional, penalty_factor},
    {"logit_bias", object, optional, bias_schema},
    {"stop_token_ids", other, optional,
     [](const ServedList& models) { return or_null(list(token_schema(models), 0, max_stop_tokens)); }},
    {"ignore_eos", flag},
    {"skip_special_tokens", flag},
    {"cache_salt", text},
    {"bad_words", texts, optional,
     [](const ServedList&) {
       return or_null(
           list({{"type", "string"}, {"minLength", 1}, {"maxLength", max_bad_word_bytes / 4}}, 0, max_bad_words));
     }},
    {"stream", flag},
    {"stream_options", object},
    {"response_format", object},
    {"guided_json", object},
    {"guided_regex", text},
    {"guided_choice", other, optional,
     [](const ServedList&) {
       return or_null(list({{"type", "string"}}, 1, 10'000));
     }},
    {"guided_grammar", text},
    {"structured_outputs", object},
    {"prompt_logprobs", whole, optional, nullptr, {}, max_log_probabilities},
}};

// What clients of OpenAI, vLLM and OpenRouter send for the records, the caches and the scheduling of those services.
constexpr auto ignored_table = std::to_array<Field>({
    ignored_field("user"),
    ignored_field("metadata"),
    ignored_field("store"),
    ignored_field("service_tier"),
    ignored_field("safety_identifier"),
    ignored_field("prompt_cache_key"),
    ignored_field("prompt_cache_retention"),
    ignored_field("prediction"),
    ignored_field("verbosity"),
    ignored_field("priority"),
    ignored_field("request_id"),
    ignored_field("kv_transfer_params"),
    ignored_field("provider"),
    ignored_field("route"),
});

// What would change the answer, by OpenAI, vLLM, llama.cpp and OpenRouter.
constexpr auto refused_table = std::to_array<Field>({
    refused_field("use_beam_search", "answers are sampled; accepted: false", "false"),
    refused_field("length_penalty", "answers are sampled; accepted: 1", "1"),
    refused_field("truncate_prompt_tokens", "nothing is left out of a prompt"),
    refused_field("transforms", "nothing is left out of a prompt"),
    refused_field("include_stop_str_in_output", "answers end before the text of stop; accepted: false", "false"),
    refused_field("spaces_between_special_tokens", "special tokens are written as the tokenizer does; accepted: true",
                  "true"),
    refused_field("return_token_ids", "answers are texts; accepted: false", "false"),
    refused_field("return_tokens_as_token_ids", "answers are texts; accepted: false", "false"),
    refused_field("allowed_token_ids", "accepted are logit_bias and response_format"),
    refused_field("logits_processors", "accepted are logit_bias and response_format"),
    refused_field("json_schema", "accepted are response_format and guided_json"),
    refused_field("grammar", "accepted is guided_grammar"),
    refused_field("repeat_penalty", "accepted is repetition_penalty", "1"),
    refused_field("n_predict", "accepted is max_tokens"),
    refused_field("max_new_tokens", "accepted is max_tokens"),
    refused_field("top_a", "there is no such sampling here; accepted: 0", "0"),
    refused_field("mirostat", "there is no such sampling here; accepted: 0", "0"),
    refused_field("dry_multiplier", "there is no such sampling here; accepted: 0", "0"),
    refused_field("xtc_probability", "there is no such sampling here; accepted: 0", "0"),
    refused_field("dynatemp_range", "there is no such sampling here; accepted: 0", "0"),
});

// Padding against eavesdroppers is of OpenAI's own servers.
constexpr std::array<Field, 2> stream_table{{{"include_usage", flag}, ignored_field("include_obfuscation")}};

// Outside float32 it is infinite, which no setting accepts.
std::optional<float> float_in(Members& members, const std::string& name) {
  const std::optional<double> number = members.number(name);
  return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
}

void read_float(Members& members, const std::string& name, std::optional<float>& setting) {
  if (const auto number = float_in(members, name)) setting = number;
}

// A negative seed is as good as any.
std::optional<std::uint64_t> read_seed(Members& members) {
  const RequestJson* seed = members.find("seed");
  if (seed == nullptr) return std::nullopt;
  if (seed->is_number_unsigned()) return seed->get<std::uint64_t>();
  if (seed->is_number_integer()) return static_cast<std::uint64_t>(seed->get<std::int64_t>());
  if (const auto whole = whole_number(*seed)) return whole;
  refuse_member(members.name_of("seed"), "is no whole number of 64 bits");
}

std::uint32_t token_of(const std::string& text, const std::string& place) {
  std::uint32_t token = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (failure != std::errc() || end != text.data() + text.size() || text.empty()) {
    refuse_member(place, fmt::format("has a member '{}', which is no token's number", utf8_prefix(text, 40)));
  }
  return token;
}

void read_logit_bias(Members& members, GenerationSettings& settings) {
  const RequestJson* bias = members.find("logit_bias");
  if (bias == nullptr) return;
  const std::string place = members.name_of("logit_bias");
  if (!bias->is_object()) refuse_member(place, "is no object");
  for (const auto& [token, value] : bias->items()) {
    if (!value.is_number()) refuse_member(fmt::format("{}.{}", place, utf8_prefix(token, 40)), "is no number");
    settings.logit_bias.emplace_back(token_of(token, place), static_cast<float>(value.get<double>()));
  }
}

void read_stop_tokens(Members& members, GenerationSettings& settings) {
  const RequestJson* tokens = members.find("stop_token_ids");
  if (tokens == nullptr) return;
  const std::string place = members.name_of("stop_token_ids");
  if (!tokens->is_array()) refuse_member(place, "is no list");
  if (tokens->size() > max_stop_tokens) {
    refuse_member(place, fmt::format("has {} tokens; accepted: at most {}", tokens->size(), max_stop_tokens));
  }
  for (const RequestJson& one : *tokens) {
    const auto token = whole_number(one);
    if (!token || *token > UINT32_MAX) refuse_member(place, "has a value that is no token's number");
    settings.stop_tokens.push_back(static_cast<std::uint32_t>(*token));
  }
}

// -1 of vLLM and 0 of transformers are all tokens.
void read_top_k(Members& members, GenerationSettings& settings) {
  const RequestJson* top_k = members.find("top_k");
  if (top_k == nullptr) return;
  if (top_k->is_number_integer() && top_k->get<std::int64_t>() == -1) {
    settings.top_k = 0;
    return;
  }
  const auto number = whole_number(*top_k);
  if (!number || *number > INT32_MAX) {
    refuse_member(members.name_of("top_k"), fmt::format("is no whole number from -1 to {}", INT32_MAX));
  }
  settings.top_k = static_cast<std::uint32_t>(*number);
}

}  // namespace

std::span<const Field> common_sampling_fields() {
  return sampling_table;
}

std::span<const Field> generation_fields() {
  static const std::vector<Field> fields = joined({sampling_table, openai_table, ignored_table, refused_table});
  return fields;
}

void check_settings(const GenerationSettings& settings, const NamedMembers& members) {
  try {
    generation::check(settings);
  } catch (const Error& error) {
    if (const auto named = error_of_member(error, members)) throw RequestError(*named);
    refuse_body(error.message());
  }
}

void read_common_sampling(Members& members, GenerationSettings& settings) {
  read_float(members, "temperature", settings.temperature);
  read_float(members, "top_p", settings.top_p);
  read_float(members, "min_p", settings.min_p);
  read_float(members, "typical_p", settings.typical_p);
  read_top_k(members, settings);
  settings.presence_penalty = float_in(members, "presence_penalty").value_or(settings.presence_penalty);
  settings.frequency_penalty = float_in(members, "frequency_penalty").value_or(settings.frequency_penalty);
  if (const auto seed = read_seed(members)) settings.seed = seed;
  if (std::vector<std::string> stop = members.texts("stop"); !stop.empty()) settings.stop = std::move(stop);
}

void read_sampling(Members& members, GenerationSettings& settings) {
  read_common_sampling(members, settings);
  read_float(members, "repetition_penalty", settings.repetition_penalty);
  read_logit_bias(members, settings);
  read_stop_tokens(members, settings);
  settings.min_tokens = members.whole("min_tokens").value_or(0);
  settings.ignores_end = members.flag("ignore_eos", false);
  settings.shows_special_tokens = !members.flag("skip_special_tokens", true);
  settings.cache_salt = members.text("cache_salt");
  settings.bad_words = members.texts("bad_words");
  check_settings(settings);
}

StreamSettings read_stream(Members& members) {
  StreamSettings stream;
  stream.is_streamed = members.flag("stream", false);
  if (const RequestJson* options = members.find("stream_options")) {
    if (!stream.is_streamed) refuse_member("stream_options", "is for answers with \"stream\": true");
    Members of_stream = members.inside(*options, "stream_options", stream_table);
    stream.has_usage = of_stream.flag("include_usage", false);
    of_stream.finish();
  }
  return stream;
}

void read_prompt_scores(Members& members, const StreamSettings& stream, GenerationSettings& settings) {
  const auto count = members.whole("prompt_logprobs");
  if (!count) return;
  if (stream.is_streamed) refuse_member("prompt_logprobs", "is for answers with \"stream\": false");
  settings.prompt_log_probabilities = static_cast<std::uint32_t>(*count);
}

std::size_t read_answers(Members& members) {
  const std::size_t answers = members.count("n");
  if (answers > max_answers) {
    refuse_member(members.name_of("n"), fmt::format("is {}; accepted: up to {}", answers, max_answers));
  }
  return answers == 0 ? 1 : answers;
}

OutputConstraint read_constraint(Members& members, std::string_view body) {
  // Read once more, in order: of the body, only these.
  std::string those;
  for (const char* name : constraint_members) {
    if (members.find(name) == nullptr) continue;
    those += fmt::format("{}\"{}\":{}", those.empty() ? "{" : ",", name, member_text(body, name));
  }
  if (those.empty()) return {};
  try {
    return generation::read_openai_constraint(those + "}");
  } catch (const Error& error) {
    // Its messages begin with the member.
    const std::string message = error.message();
    const std::size_t end =
        std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.[]0123456789"), message.size());
    throw RequestError(message.substr(0, end), std::string_view(message).substr(end), MemberProblem::invalid);
  }
}

std::string constraint_member(Members& members) {
  const auto* const found =
      std::ranges::find_if(constraint_members, [&](const char* name) { return members.find(name) != nullptr; });
  return found == constraint_members.end() ? std::string() : *found;
}

}  // namespace gpux::server
