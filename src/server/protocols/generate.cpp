#include "server/protocols/generate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "generation/infill.h"
#include "server/generation/chat_reader.h"
#include "server/generation/generation_job.h"
#include "server/generation/streamed_answer.h"
#include "server/generation/whole_answer.h"
#include "server/models/run_spans.h"
#include "server/protocols/answer_times.h"
#include "server/protocols/chat_refusals.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/request_error.h"
#include "server/protocols/request_json.h"

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

std::uint64_t cost_to_tokenize(const Continuation& continuation) {
  std::uint64_t longest = continuation.suffix.size();
  for (const TextInput& prompt : continuation.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (text != nullptr) longest = std::max<std::uint64_t>(longest, text->size());
  }
  return longest * tokenizer_bytes_per_byte;
}

// A conversation may go on one that the server keeps, which is longer than the body.
std::uint64_t conversation_bytes(const generation::ChatRequest& chat) {
  std::uint64_t bytes = chat.options.tools.size();
  for (const ChatMessage& message : chat.messages) {
    bytes += message.content.size() + message.reasoning.size();
    for (const ToolCall& call : message.tool_calls) bytes += call.arguments.size();
  }
  return bytes;
}

// Reading a constraint takes milliseconds, and the first one of a model reads its vocabulary. A chat template may take
// seconds for any request: one that is not known to be quick leaves a reader to the requests of others.
std::uint64_t cost_of(const GenerationRequest& request, std::uint64_t body_bytes, const RenderPace& pace) {
  const auto* continuation = std::get_if<Continuation>(&request.asked);
  const auto* chat = std::get_if<generation::ChatRequest>(&request.asked);
  const GenerationSettings& settings = chat != nullptr ? chat->settings : continuation->settings;
  const bool has_constraint = settings.constraint.kind != OutputConstraint::Kind::none ||
                              (chat != nullptr && chat->options.tool_choice == ToolChoice::required);
  std::uint64_t word_bytes = 0;
  for (const std::string& word : settings.bad_words) word_bytes += 2 * word.size();
  const bool is_slow = chat != nullptr && !pace.is_quick(Clock::now());
  return (chat != nullptr ? std::max(body_bytes, conversation_bytes(*chat)) * tokenizer_bytes_per_byte
                          : cost_to_tokenize(*continuation)) +
         word_bytes * tokenizer_bytes_per_byte + (has_constraint ? work_here_bytes + 1 : 0) +
         (is_slow ? ReadersOptions{}.heavy_cost + 1 : 0);
}

// Notes how long a template takes, also if it fails: it may be stopped after all of its steps.
class RenderNote {
 public:
  RenderNote(RenderPace& pace, std::shared_ptr<RequestSpans> spans) : pace_(&pace), spans_(std::move(spans)) {}

  ~RenderNote() {
    if (pace_ != nullptr) pace_->note(Clock::now() - begin_, Clock::now());
  }

  RenderNote(const RenderNote&) = delete;
  RenderNote& operator=(const RenderNote&) = delete;

  void end() {
    if (pace_ == nullptr) return;
    const Clock::time_point now = Clock::now();
    std::exchange(pace_, nullptr)->note(now - begin_, now);
    if (spans_) spans_->add("template", begin_, now);
  }

 private:
  RenderPace* pace_;
  std::shared_ptr<RequestSpans> spans_;
  Clock::time_point begin_ = Clock::now();
};

// What goes to the engine, and how its answers are read.
struct Planned {
  generation::EngineRequest asked;  // but for its prompt
  Prompts prompts;
  std::optional<generation::AnswerSettings> answer;  // none: the text is the answer
  std::optional<std::string> prompt_text;            // of a conversation; none: it is not kept
  std::vector<std::string> echoes;                   // of prompts that are continued
};

// Refuses a text that no context holds, and holds what its tokens take while they are made.
void hold_for_tokens(const RouteCall& call, std::string_view text, std::size_t context_length,
                     const NamedMembers& members, MemoryShare& scratch) {
  constexpr std::size_t short_bytes = 4096;
  if (text.size() <= short_bytes) return;
  require_short(text, context_length, members);
  grow_share(scratch, call.work.memory, text.size() * tokenizer_bytes_per_byte, "tokenizing the prompt");
}

void plan_conversation(const RouteCall& call, ServedModel& model, generation::ChatRequest chat,
                       const NamedMembers& members, Planned& planned) {
  chat.constrains_content = true;
  MemoryShare scratch(call.work.memory);
  RenderNote note(model.render_pace(), call.work.spans);
  Clock::time_point rendered = Clock::now();
  generation::ChatPlan plan =
      generation::plan_chat(*model.chat(), model.engine()->tokenizer(), std::move(chat), [&](std::string_view prompt) {
        note.end();
        rendered = Clock::now();
        hold_for_tokens(call, prompt, model.engine()->context_length(), members, scratch);
        if (planned.prompt_text) planned.prompt_text->assign(prompt);
      });
  add_phase(call.work.spans, "tokenize", rendered);
  planned.prompts.push_back(std::exchange(plan.request.prompt, {}));
  planned.asked = std::move(plan.request);
  // The calls of a conversation differ, also where its requests have the same seed.
  plan.answer.id_seed = std::random_device()();
  planned.answer = std::move(plan.answer);
}

// The prompt for the text between `prefix`, which is null where the request has tokens, and the suffix.
std::vector<std::uint32_t> infill_tokens(const RouteCall& call, const ServedModel& model, const std::string* prefix,
                                         const Continuation& continuation, const NamedMembers& members,
                                         std::vector<std::uint32_t>& end_tokens) {
  if (prefix == nullptr) refuse_member("suffix", "goes with a text as prompt, and not with tokens");
  const text::Tokenizer& tokenizer = model.engine()->tokenizer();
  const auto format = generation::infill_format_of(tokenizer);
  if (!format) {
    refuse_member("suffix", fmt::format(": the vocabulary of '{}' has no tokens that mark a middle to be filled in",
                                        model.name()));
  }
  MemoryShare scratch(call.work.memory);
  hold_for_tokens(call, continuation.suffix, model.engine()->context_length(), members, scratch);
  end_tokens = format->end_tokens;
  return generation::infill_prompt(tokenizer, *format, *prefix, continuation.suffix, continuation.special_tokens);
}

// Puts the tokens of earlier prompts and answers before the prompt, which then begins no text of its own.
void continue_earlier(const ServedModel& model, const TokenIds& earlier, std::vector<std::uint32_t>& prompt) {
  if (earlier.empty()) return;
  const text::Tokenizer& tokenizer = model.engine()->tokenizer();
  const std::size_t count = model.engine()->vocabulary_size();
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (earlier[i] < count) continue;
    refuse_member(fmt::format("context[{}]", i),
                  fmt::format("is {}; accepted: the numbers of the model's {} tokens", earlier[i], count));
  }
  const std::vector<std::uint32_t> beginning = generation::prompt_tokens(tokenizer, "", true);
  const bool begins_anew = !beginning.empty() && !prompt.empty() && prompt.front() == beginning.front();
  prompt.insert(begins_anew ? prompt.erase(prompt.begin()) : prompt.begin(), earlier.begin(), earlier.end());
}

// The prompt as a text. Errors of Tokenizer::decode(): a token without a text.
std::string echo_of(const ServedModel& model, const TextInput& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return model.engine()->tokenizer().decode(std::get<TokenIds>(prompt), false);
}

// Whether all prompts are tokens.
bool plan_next(const RouteCall& call, ServedModel& model, GenerationRequest& request, Planned& planned) {
  if (auto* chat = std::get_if<generation::ChatRequest>(&request.asked)) {
    plan_conversation(call, model, std::move(*chat), request.members, planned);
    continue_earlier(model, request.earlier, planned.prompts.front());
    return true;
  }
  auto& continuation = std::get<Continuation>(request.asked);
  if (planned.prompts.empty()) planned.asked.settings = continuation.settings;
  const TextInput prompt = std::exchange(continuation.prompts[planned.prompts.size()], {});
  MemoryShare scratch(call.work.memory);
  const auto* text = std::get_if<std::string>(&prompt);
  if (text != nullptr) hold_for_tokens(call, *text, model.engine()->context_length(), request.members, scratch);
  if (continuation.echoes) planned.echoes.push_back(echo_of(model, prompt));
  const Clock::time_point start = Clock::now();
  planned.prompts.push_back(
      continuation.suffix.empty()
          ? tokens_of(prompt, continuation.special_tokens, model.engine()->tokenizer())
          : infill_tokens(call, model, text, continuation, request.members, planned.asked.end_tokens));
  add_phase(call.work.spans, "tokenize", start);
  continue_earlier(model, request.earlier, planned.prompts.back());
  return planned.prompts.size() == continuation.prompts.size();
}

// As many tokens as the context has room for.
void limit_tokens(const GenerationRequest& request, GenerationSettings& settings, const Prompts& prompts,
                  std::size_t context_of_model) {
  const bool has_own_context = request.context_length != 0;
  if (!request.limits_tokens && !has_own_context) return;
  const std::size_t context = has_own_context ? request.context_length : context_of_model;
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  if (longest >= context) {
    throw RequestError(
        Error(ErrorCode::invalid_input,
              fmt::format("the prompt has {} tokens; accepted: fewer than the {} of the context", longest, context)),
        request.members.prompt, MemberProblem::too_long);
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
  return generation::prompt_tokens(tokenizer, std::get<std::string>(prompt), special_tokens);
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

// Whose request it is: by its key, or, without one, by the address of its peer.
std::string client_of(const Caller& caller) {
  return caller.key.empty() ? caller.address : "key " + caller.key;
}

// `choices`: of all prompts together.
std::vector<std::unique_ptr<AnswerReader>> make_readers(std::optional<generation::AnswerSettings> answer,
                                                        std::size_t choices) {
  std::vector<std::unique_ptr<AnswerReader>> readers;
  std::shared_ptr<const generation::AnswerSettings> settings;
  if (answer) settings = std::make_shared<const generation::AnswerSettings>(*std::move(answer));
  for (std::size_t i = 0; i < choices; ++i) {
    if (settings) {
      readers.push_back(std::make_unique<ChatReader>(settings, settings->id_seed + i + 1));
    } else {
      readers.push_back(std::make_unique<PlainReader>());
    }
  }
  return readers;
}

std::shared_ptr<GenerationJob> make_job(const RouteCall& call, const std::shared_ptr<ServedModel>& model,
                                        const GenerationRequest& request, Planned planned,
                                        std::shared_ptr<AnswerSink> sink) {
  generation::EngineRequest& asked = planned.asked;
  asked.client = client_of(*call.caller);
  if (!call.caller->key.empty()) asked.cache_scope = asked.client;
  asked.arrived = call.request().arrived;
  generation::sample_where_asked(asked.settings, request.answers, model->engine()->files().defaults);
  limit_tokens(request, asked.settings, planned.prompts, model->engine()->context_length());
  if (const auto& words = asked.settings.bad_words; !words.empty()) {
    asked.bad_words = std::make_shared<const generation::BadWords>(model->engine()->tokenizer(), words);
  }
  auto writer = std::make_shared<AnswerWriter>(
      std::move(sink), make_readers(std::move(planned.answer), planned.prompts.size() * request.answers),
      request.answers, request.gives_tokens ? planned.prompts.front() : std::vector<std::uint32_t>(),
      std::move(planned.echoes));
  GenerationJob::Work work{.asked = std::move(asked),
                           .prompts = std::move(planned.prompts),
                           .answers = request.answers,
                           .request = call.work};
  return std::make_shared<GenerationJob>(model, std::move(work), std::move(writer));
}

// What the library says of a setting, the prompt or the form of the answer is about a member of the request.
http::Response error_response_of(const Error& error, const NamedMembers& members, Protocol protocol) {
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

// Attributes by the semantic conventions of generative models.
void describe(RequestSpans& spans, const ServedModel& model, const GenerationRequest& request) {
  const bool is_chat = std::holds_alternative<generation::ChatRequest>(request.asked);
  spans.set("gen_ai.operation.name", std::string(is_chat ? "chat" : "text_completion"));
  spans.set("gen_ai.provider.name", std::string("gpux"));
  spans.set("gen_ai.request.model", model.name());
}

void start_texts(const RouteCall& call, const std::shared_ptr<ServedModel>& model, const GenerationRequest& request,
                 Planned planned) {
  if (call.work.spans) describe(*call.work.spans, *model, request);
  const auto refuse = [protocol = call.protocol](const Error& error) { return error_response(error, protocol); };
  std::shared_ptr<StreamedAnswer> streamed;
  std::shared_ptr<AnswerSink> sink;
  if (request.rendering.events) {
    std::size_t prompt_tokens = 0;
    for (const auto& prompt : planned.prompts) prompt_tokens += prompt.size();
    sink = streamed = std::make_shared<StreamedAnswer>(call.exchange, request.rendering.events(prompt_tokens), refuse);
  } else {
    const auto render = [whole = request.rendering.whole, arrived = call.request().arrived](
                            const std::vector<AnswerDelta>& parts, const AnswerUsage& usage) {
      return with_times(whole(parts, usage), usage, arrived);
    };
    sink = std::make_shared<WholeAnswer>(call.exchange, planned.prompts.size() * request.answers, call.work, render,
                                         refuse, request.rendering.kept_as);
  }
  const auto job = make_job(call, model, request, std::move(planned), std::move(sink));
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

// Plans the request, here or by the readers, into what was begun, and hands it to `go_on`, or answers with the error.
void plan(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest given, Planned begun,
          std::function<void(const GenerationRequest& request, Planned planned)> go_on) {
  const auto request = std::make_shared<GenerationRequest>(std::move(given));
  if (const auto* chat = std::get_if<generation::ChatRequest>(&request->asked)) {
    try {
      require_chat(*model, *chat);
    } catch (const Error& error) {
      if (const auto of_member = error_of_member(error, request->members)) throw RequestError(*of_member);
      throw;
    }
  }
  const auto planned = std::make_shared<Planned>(std::move(begun));
  const std::uint64_t cost = cost_of(*request, call.request().body.text().size(), model->render_pace());
  do_units(call, cost, [call, model, request, planned, go_on = std::move(go_on)] {
    try {
      if (!plan_next(call, *model, *request, *planned)) return true;
    } catch (const Error& error) {
      model->statistics().count(error, call.request().arrived);
      call.exchange->respond(error_response_of(error, request->members, call.protocol));
      return false;
    }
    try {
      go_on(*request, std::move(*planned));
    } catch (const Error& error) {
      call.exchange->respond(error_response_of(error, request->members, call.protocol));
    }
    return false;
  });
}

}  // namespace

void generate(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request) {
  plan(call, model, std::move(request), {}, [call, model](const GenerationRequest& asked, Planned planned) {
    start_texts(call, model, asked, std::move(planned));
  });
}

void count_tokens(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request,
                  std::function<std::string(std::size_t tokens)> render) {
  plan(call, model, std::move(request), {},
       [call, render = std::move(render)](const GenerationRequest& /*asked*/, const Planned& planned) {
         std::size_t tokens = 0;
         for (const auto& prompt : planned.prompts) tokens += prompt.size();
         call.exchange->respond(http::Response::json(200, render(tokens)));
       });
}

void render_prompt(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request,
                   std::function<std::string(std::string_view prompt)> render) {
  Planned begun;
  begun.prompt_text.emplace();
  plan(call, model, std::move(request), std::move(begun),
       [call, render = std::move(render)](const GenerationRequest& /*asked*/, const Planned& planned) {
         call.exchange->respond(http::Response::json(200, render(*planned.prompt_text)));
       });
}

}  // namespace gpux::server
