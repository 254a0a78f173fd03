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
constexpr std::size_t max_log_probabilities = 20;

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

constexpr std::array<Field, 5> completion_table{{
    {"logprobs", whole, optional, nullptr, {}, max_log_probabilities},
    {"add_special_tokens", flag},
    {"best_of", count, optional, best_of_schema},
    {"echo", flag, optional, only_false},
    {"suffix", text},
}};

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
  const std::size_t max_tokens = members.count("max_tokens");
  settings.max_tokens = max_tokens == 0 ? std::max(default_tokens, settings.min_tokens) : max_tokens;
  read.answers = read_answers(members);
  read.stream = read_stream(members);
  read.continuation.special_tokens = members.flag("add_special_tokens", true);
  if (const auto count = members.whole("logprobs")) {
    settings.log_probabilities = true;
    settings.top_log_probabilities = static_cast<std::uint32_t>(*count);
  }
  if (const std::size_t best_of = members.count("best_of"); best_of != 0 && best_of != read.answers) {
    refuse_member("best_of", fmt::format("is {}; accepted: n, {}: answers are not ranked", best_of, read.answers));
  }
  if (members.flag("echo", false)) refuse_member("echo", ": answers do not repeat the prompt");
  read.continuation.suffix = members.text("suffix");
  settings.constraint = read_constraint(members, body);
  read.form_member = constraint_member(members);
  members.finish();
  check_settings(settings);
  return read;
}

}  // namespace gpux::server
