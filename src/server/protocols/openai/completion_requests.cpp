#include "server/protocols/openai/completion_requests.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/request_json.h"

namespace gpux::server {
namespace {

// OpenAI's own default.
constexpr std::size_t default_tokens = 16;
constexpr std::size_t max_log_probabilities = 20;

}  // namespace

CompletionRequest read_completion(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation, BodyObjects::conversation);
  Members members(json, "");
  CompletionRequest read;
  read.prompts = read_text_inputs(members.must_find("prompt"), "prompt");
  read.model = members.text("model");
  read_sampling(members, read.settings);
  const std::size_t max_tokens = members.count("max_tokens");
  read.settings.max_tokens = max_tokens == 0 ? std::max(default_tokens, read.settings.min_tokens) : max_tokens;
  read.answers = read_answers(members);
  read.stream = read_stream(members);
  read.special_tokens = members.flag("add_special_tokens", true);
  if (const auto count = members.whole("logprobs", max_log_probabilities)) {
    read.settings.log_probabilities = true;
    read.settings.top_log_probabilities = static_cast<std::uint32_t>(*count);
  }
  if (const std::size_t best_of = members.count("best_of"); best_of != 0 && best_of != read.answers) {
    refuse_member("best_of", fmt::format("is {}; accepted: n, {}: answers are not ranked", best_of, read.answers));
  }
  if (members.flag("echo", false)) refuse_member("echo", ": answers do not repeat the prompt");
  if (!members.text("suffix").empty()) refuse_member("suffix", ": texts are continued at their end only");
  read.settings.constraint = read_constraint(members, body);
  read.form_member = constraint_member(members);
  read_labels(members);
  members.refuse_others();
  check_settings(read.settings);
  return read;
}

}  // namespace gpux::server
