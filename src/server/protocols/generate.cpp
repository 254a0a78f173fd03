#include "server/protocols/generate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "server/generation/generation_job.h"
#include "server/generation/streamed_answer.h"
#include "server/protocols/answer_times.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/request_error.h"
#include "server/requests/api_keys.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;
using Prompts = std::vector<std::vector<std::uint32_t>>;

void require_short(std::string_view prompt, std::size_t context_length, const NamedMembers& members) {
  const std::size_t limit = max_prompt_bytes(context_length);
  if (prompt.size() <= limit) return;
  throw RequestError(
      Error(ErrorCode::invalid_input,
            fmt::format("the prompt has {} bytes; accepted: up to {}, and fewer tokens than the {} of the "
                        "context",
                        prompt.size(), limit, context_length)),
      members.prompt, MemberProblem::too_long);
}

std::uint64_t cost_to_tokenize(const std::vector<TextInput>& prompts) {
  std::uint64_t longest = 0;
  for (const TextInput& prompt : prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (text != nullptr) longest = std::max<std::uint64_t>(longest, text->size());
  }
  return longest * bytes_to_tokenize_a_byte;
}

// Reading a constraint takes milliseconds, and the first one of a model reads its vocabulary. A chat template may take
// seconds for any request: one that is not known to be quick leaves a reader to the requests of others.
std::uint64_t cost_of(const GenerationPlan& plan, const RenderPace& pace) {
  const bool has_constraint = plan.settings.constraint.kind != OutputConstraint::Kind::none;
  const bool is_slow = plan.prepare != nullptr && !pace.is_quick(Clock::now());
  return cost_to_tokenize(plan.prompts) + plan.bytes_to_prepare * bytes_to_tokenize_a_byte +
         (has_constraint ? work_here_bytes + 1 : 0) + (is_slow ? ReadersOptions{}.heavy_cost + 1 : 0);
}

// Makes the prompts, and notes how long that takes, also if it fails: a template may be stopped after all of its steps.
void prepare(GenerationPlan& plan, RenderPace& pace) {
  struct Note {
    RenderPace& pace;
    Clock::time_point begin = Clock::now();

    ~Note() {
      const Clock::time_point end = Clock::now();
      pace.note(end - begin, end);
    }
  };

  const auto make_prompts = std::exchange(plan.prepare, nullptr);
  if (make_prompts == nullptr) return;
  const Note note{pace};
  make_prompts(plan);
}

// As many tokens as the context has room for.
void limit_tokens(const GenerationPlan& plan, GenerationSettings& settings, const Prompts& prompts,
                  std::size_t context_of_model) {
  const bool has_own_context = plan.context_length != 0;
  if (!plan.limits_tokens && !has_own_context) return;
  const std::size_t context = has_own_context ? plan.context_length : context_of_model;
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  if (longest >= context) {
    throw RequestError(
        Error(ErrorCode::invalid_input,
              fmt::format("the prompt has {} tokens; accepted: fewer than the {} of the context", longest, context)),
        plan.members.prompt, MemberProblem::too_long);
  }
  const std::size_t left = context - longest;
  if (settings.max_tokens != 0 || has_own_context) {
    settings.max_tokens = settings.max_tokens == 0 ? left : std::min(settings.max_tokens, left);
  }
  settings.min_tokens = std::min(settings.min_tokens, left);
}

}  // namespace

std::size_t max_prompt_bytes(std::size_t context_length) noexcept {
  constexpr std::size_t bytes_per_token = 16;
  return std::max(max_text_bytes, bytes_per_token * context_length);
}

std::vector<std::uint32_t> tokens_of(const TextInput& prompt, bool special_tokens, const text::Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<TokenIds>(&prompt)) return *ids;
  const text::Encoding encoding = tokenizer.encode(std::get<std::string>(prompt), {.special_tokens = special_tokens});
  return {encoding.ids().begin(), encoding.ids().end()};
}

namespace {

// Gives the client signs of life for as long as it waits.
void keep_alive(ServiceState& service, const std::shared_ptr<StreamedAnswer>& answer) {
  const Clock::time_point now = Clock::now();
  service.limits.at(now + service.options.keep_alive, [&service, now, weak = std::weak_ptr(answer)] {
    const auto waiting = weak.lock();
    if (waiting && waiting->keep_alive(now)) keep_alive(service, waiting);
  });
}

// Whose request it is: by its key, or, without keys, by the address of its peer.
std::string client_of(const http::Request& request, std::span<const std::string> keys) {
  const auto key = key_of(keys, request.headers["Authorization"], request.headers["X-API-Key"]);
  if (key) return fmt::format("key {}", *key);
  const std::string peer = request.peer ? *request.peer : std::string();
  return peer.substr(0, peer.rfind(':'));
}

std::shared_ptr<GenerationJob> make_job(const http::Exchange& exchange, const RequestWork& work,
                                        std::span<const std::string> keys, const std::shared_ptr<ServedModel>& model,
                                        const GenerationPlan& plan, Prompts prompts, std::shared_ptr<AnswerSink> sink) {
  std::string client = client_of(exchange.request(), keys);
  GenerationJob::Work asked{.prompts = std::move(prompts),
                            .settings = plan.settings,
                            .shown_tokens = plan.shown_tokens,
                            .is_answer = plan.is_answer,
                            .answers = plan.answers,
                            .client = client,
                            .cache_scope = keys.empty() ? std::string() : client,
                            .request = work,
                            .arrived = exchange.request().arrived};
  limit_tokens(plan, asked.settings, asked.prompts, model->engine()->context_length());
  std::vector<std::unique_ptr<AnswerReader>> readers;
  for (std::size_t i = 0; i < asked.prompts.size() * plan.answers; ++i) readers.push_back(plan.format.reader());
  auto writer = std::make_shared<AnswerWriter>(std::move(sink), std::move(readers), plan.answers);
  return std::make_shared<GenerationJob>(model, std::move(asked), std::move(writer));
}

// What the library says of a setting, the prompt or the form of the answer is about a member of the request.
http::Response error_response_of(const Error& error, const NamedMembers& members, Protocol protocol) {
  if (dynamic_cast<const RequestError*>(&error) != nullptr) return error_response(error, protocol);
  const auto of_member = error_of_member(error, members);
  return error_response(of_member ? *of_member : error, protocol);
}

http::Response with_times(std::string text, const AnswerUsage& usage, Clock::time_point arrived) {
  const auto whole = [](std::chrono::duration<double> duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration);
  };
  http::Response response = http::Response::json(200, std::move(text));
  add_times(response, {.queue = whole(usage.queue_time), .compute = whole(usage.prompt_time + usage.generation_time)},
            arrived);
  return response;
}

void start_texts(const RouteCall& call, const std::shared_ptr<ServedModel>& model, const GenerationPlan& plan,
                 Prompts prompts) {
  const auto refuse = [protocol = call.protocol](const Error& error) { return error_response(error, protocol); };
  std::shared_ptr<StreamedAnswer> streamed;
  std::shared_ptr<AnswerSink> sink;
  if (plan.format.events) {
    sink = streamed = std::make_shared<StreamedAnswer>(call.exchange, plan.format.events(), refuse);
  } else {
    const auto render = [whole = plan.format.whole, arrived = call.request().arrived](
                            const std::vector<AnswerDelta>& choices, const AnswerUsage& usage) {
      return with_times(whole(choices, usage), usage, arrived);
    };
    sink = std::make_shared<WholeAnswer>(call.exchange, prompts.size() * plan.answers, call.work, render, refuse);
  }
  const auto job = make_job(*call.exchange, call.work, call.service.options.api_keys, model, plan, std::move(prompts),
                            std::move(sink));
  cancel_when_gone(*call.exchange, call.work, [job] { job->cancel(); });
  job->start();
  if (streamed) keep_alive(call.service, streamed);
  // In time, however long the run in progress takes.
  if (const auto deadline = call.work.deadline.time()) {
    call.service.limits.at(*deadline, [weak = std::weak_ptr(job)] {
      if (const auto late = weak.lock()) {
        late->fail(Error(ErrorCode::deadline_exceeded, "the text was not finished in time"));
      }
    });
  }
}

}  // namespace

void generate(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationPlan given) {
  const auto plan = std::make_shared<GenerationPlan>(std::move(given));
  const auto prompts = std::make_shared<Prompts>();
  do_units(call, cost_of(*plan, model->render_pace()), [call, model, plan, prompts] {
    try {
      prepare(*plan, model->render_pace());
      const TextInput prompt = std::exchange(plan->prompts[prompts->size()], {});
      MemoryShare scratch(call.work.memory);
      constexpr std::size_t short_bytes = 4096;
      if (const auto* text = std::get_if<std::string>(&prompt); text != nullptr && text->size() > short_bytes) {
        require_short(*text, model->engine()->context_length(), plan->members);
        grow_share(scratch, call.work.memory, text->size() * bytes_to_tokenize_a_byte, "tokenizing the prompt");
      }
      prompts->push_back(tokens_of(prompt, plan->special_tokens, model->engine()->tokenizer()));
      if (prompts->size() < plan->prompts.size()) return true;
    } catch (const Error& error) {
      model->statistics().count(error, call.request().arrived);
      call.exchange->respond(error_response_of(error, plan->members, call.protocol));
      return false;
    }
    try {
      start_texts(call, model, *plan, std::move(*prompts));
    } catch (const Error& error) {
      call.exchange->respond(error_response_of(error, plan->members, call.protocol));
    }
    return false;
  });
}

}  // namespace gpux::server
