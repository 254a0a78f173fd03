#include "server/protocols/openai/completion_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/request_json.h"

namespace gpux::server {
namespace {

// OpenAI's own default.
constexpr std::size_t default_tokens = 16;

using namespace openapi;
using enum FieldKind;
using enum FieldUse;

Json prompts_schema(const ServedList& models) {
  const Json prompt{{"type", "string"}}, tokens = list(token_schema(models), 1, max_texts);
  return {{"anyOf", Json::array({prompt, tokens, list({{"anyOf", Json::array({prompt, tokens})}}, 1, max_texts)})}};
}

// Another number than n is refused, which a schema cannot say.
Json best_of_schema(const ServedList&) {
  return {{"type", "null"}, {"description", "accepted is also the number of n: answers are not ranked"}};
}

constexpr std::array<Field, 1> prompt_table{{{"prompt", other, required, prompts_schema}}};

constexpr std::array<Field, 6> completion_table{{
    {"max_tokens", whole},
    {"logprobs", whole, optional, nullptr, {}, max_log_probabilities},
    {"add_special_tokens", flag},
    {"best_of", count, optional, best_of_schema},
    {"echo", flag},
    {"suffix", text},
}};

// 0: nothing is generated, as the scores of a prompt are asked for.
void read_max_tokens(Members& members, const CompletionRequest& read, GenerationSettings& settings) {
  const auto max_tokens = members.whole("max_tokens");
  settings.max_tokens = max_tokens ? *max_tokens : std::max(default_tokens, settings.min_tokens);
  settings.prompt_only = settings.max_tokens == 0;
  if (!settings.prompt_only) return;
  if (settings.min_tokens != 0)
    refuse_member("min_tokens", fmt::format("is {}, and max_tokens 0", settings.min_tokens));
  if (!read.form_member.empty()) refuse_member(read.form_member, ": no text is made with max_tokens 0");
}

// Of the prompt, for "echo" with "logprobs", "prompt_logprobs", or both.
void read_scores(Members& members, CompletionRequest& read, GenerationSettings& settings) {
  read_prompt_scores(members, read.stream, settings);
  read.parts.has_prompt_scores = settings.prompt_log_probabilities.has_value();
  read.continuation.echoes = members.flag("echo", false);
  const auto count = members.whole("logprobs");
  if (!count) return;
  settings.log_probabilities = true;
  settings.top_log_probabilities = static_cast<std::uint32_t>(*count);
  if (!read.continuation.echoes) return;
  read.parts.scores_echo = true;
  const std::uint32_t of_prompt = settings.prompt_log_probabilities.value_or(settings.top_log_probabilities);
  if (of_prompt != settings.top_log_probabilities) {
    refuse_member("prompt_logprobs",
                  fmt::format("is {}, and with echo logprobs is {}; accepted: equal ones", of_prompt, *count));
  }
  settings.prompt_log_probabilities = settings.top_log_probabilities;
}

}  // namespace

std::span<const Field> completion_fields() {
  static const std::vector<Field> fields = joined({prompt_table, generation_fields(), completion_table});
  return fields;
}

CompletionRequest read_completion(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", completion_fields(), reading.rules);
  CompletionRequest read;
  GenerationSettings& settings = read.continuation.settings;
  read.continuation.prompts = read_text_inputs(members.must_find("prompt"), "prompt");
  read.model = members.text("model");
  read_sampling(members, settings);
  read.answers = read_answers(members);
  read.stream = read_stream(members);
  read.continuation.special_tokens = members.flag("add_special_tokens", true);
  read_scores(members, read, settings);
  if (const std::size_t best_of = members.count("best_of"); best_of != 0 && best_of != read.answers) {
    refuse_member("best_of", fmt::format("is {}; accepted: n, {}: answers are not ranked", best_of, read.answers));
  }
  read.continuation.suffix = members.text("suffix");
  if (read.continuation.echoes && !read.continuation.suffix.empty()) {
    refuse_member("echo", "and suffix are both there; accepted: one of them");
  }
  settings.constraint = read_constraint(members, body);
  read.form_member = constraint_member(members);
  read_max_tokens(members, read, settings);
  members.finish();
  check_settings(settings);
  return read;
}

}  // namespace gpux::server
