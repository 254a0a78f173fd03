#include "server/generation/generation_job.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/format_message.h"
#include "server/models/run_spans.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds whole(std::chrono::duration<double> duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration);
}

void count(ModelStatistics& statistics, const Completion& completion, Clock::time_point arrived) {
  const Clock::time_point now = Clock::now();
  GenerationStatistics& generation = statistics.generation;
  generation.prompt_tokens += completion.prompt_tokens;
  generation.cached_tokens += completion.cached_tokens;
  generation.generated_tokens += completion.tokens.size();
  ++statistics.succeeded;
  ++statistics.rows;
  statistics.last_success = statistics.last_answer = now.time_since_epoch().count();
  statistics.total.add(now - arrived);
  statistics.queue.add(whole(completion.queue_time));
  statistics.compute.add(whole(completion.time - completion.queue_time));
}

}  // namespace

GenerationJob::GenerationJob(std::shared_ptr<ServedModel> model, Work work,
                             std::shared_ptr<GenerationListener> listener)
    : model_(std::move(model)),
      work_(std::move(work)),
      last_token_(work_.prompts.size() * work_.answers),
      listener_(std::move(listener)),
      missing_(last_token_.size()) {}

generation::EngineRequest GenerationJob::request_for(std::size_t choice) {
  const auto self = shared_from_this();
  generation::EngineRequest request = work_.asked;
  request.prompt = work_.prompts[choice / work_.answers];
  if (request.settings.seed) *request.settings.seed += choice % work_.answers;
  request.deadline = work_.request.deadline.time();
  request.constraint = constraint_;
  request.number = number_;
  if (request.settings.prompt_log_probabilities) {
    request.on_prompt = [self, choice](std::vector<TokenScore> scores) {
      call_guarded(
          [&] { self->tell([&](GenerationListener& listener) { listener.prompt(choice, std::move(scores)); }); });
    };
  }
  request.on_token = [self, choice](GeneratedToken token) {
    call_guarded([&] { self->take(choice, std::move(token)); });
  };
  request.on_end = [self, choice](const std::optional<Error>& error, Completion completion) {
    call_guarded([&] { self->end(choice, error, std::move(completion)); });
  };
  return request;
}

void GenerationJob::start() {
  started_ = Clock::now();
  if (work_.request.spans) traced_.resize(last_token_.size());
  number_ = model_->begin_texts([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->fail(Error(ErrorCode::interrupted, "the server is going down"));
  });
  try {
    submit_first();
  } catch (const Error& error) {
    model_->statistics().count(error, work_.asked.arrived);
    bool is_told = false;
    {
      const std::lock_guard lock(mutex_);
      is_told = listener_ == nullptr;
      listener_ = nullptr;
    }
    model_->end_texts(number_);
    cancel_all();
    if (!is_told) throw;
  }
}

void GenerationJob::submit_first() {
  const GeneratorOptions& options = model_->generator_options();
  const std::size_t limit = options.max_sequences + options.max_waiting, count = last_token_.size();
  if (count > limit) {
    throw Error(ErrorCode::invalid_input, setting_named("answers"),
                fmt::format("the request asks for {} answers; accepted by this server: up to {}", count, limit));
  }
  engine_ = model_->engine_for(work_.asked.cache_scope,
                               work_.prompts.empty() ? std::span<const std::uint32_t>() : work_.prompts.front());
  const OutputConstraint& constraint = work_.asked.settings.constraint;
  if (constraint.kind != OutputConstraint::Kind::none) {
    const auto start = Clock::now();
    constraint_ = engine_->constraint(constraint);
    add_phase(work_.request.spans, "constraint", start);
  }
  // Two at least: while one ends, the other keeps the place of the next one.
  const std::size_t first = std::min(count, std::max<std::size_t>(options.max_sequences, 2));
  {
    const std::lock_guard lock(mutex_);
    submitted_ = first;
  }
  for (std::size_t choice = 0; choice < first; ++choice) submit(choice, request_for(choice));
}

void GenerationJob::submit(std::size_t choice, generation::EngineRequest request) {
  const std::size_t prompt_tokens = request.prompt.size();
  const generation::Engine::Ticket ticket = engine_->submit(std::move(request));
  // Its answers share a prompt.
  if (choice % work_.answers == 0) work_.request.add_tokens(prompt_tokens);
  bool is_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    tickets_.push_back(ticket);
    is_cancelled = is_cancelled_;
  }
  if (is_cancelled) engine_->cancel(ticket);
}

// In the place of one that has ended.
void GenerationJob::submit_next() {
  std::size_t choice = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_ || listener_ == nullptr || submitted_ == last_token_.size()) return;
    choice = submitted_++;
  }
  const auto failure = failure_of([&] {
    generation::EngineRequest request = request_for(choice);
    request.continues_number = true;
    submit(choice, std::move(request));
  });
  if (failure) fail(*failure);
}

void GenerationJob::cancel() {
  work_.request.stop.request_stop();
  cancel_all();
}

void GenerationJob::fail(const Error& error) {
  tell([&](const GenerationListener& /*listener*/) { throw Error(error); });
}

void GenerationJob::cancel_all() {
  std::vector<generation::Engine::Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    tickets = tickets_;
  }
  for (const generation::Engine::Ticket ticket : tickets) engine_->cancel(ticket);
}

void GenerationJob::take(std::size_t choice, GeneratedToken&& token) {
  const Clock::time_point now = Clock::now();
  ModelStatistics& statistics = model_->statistics();
  statistics.last_answer = now.time_since_epoch().count();
  Clock::time_point& last = last_token_[choice];
  const SpanContext* traced = work_.request.spans ? &work_.request.spans->context() : nullptr;
  if (last == Clock::time_point{}) {
    statistics.generation.time_to_first_token.add(now - work_.asked.arrived, traced);
  } else {
    statistics.generation.time_between_tokens.add(now - last, traced);
  }
  last = now;
  if (work_.request.spans) note_token(choice, now);
  work_.request.add_tokens(1);
  tell([&](GenerationListener& listener) { listener.token(choice, std::move(token)); });
}

// Few of them: the times between tell how the pace changes.
void GenerationJob::note_token(std::size_t choice, Clock::time_point now) {
  TracedTokens& own = traced_[choice];
  if (++own.count; std::has_single_bit(own.count)) own.sampled.emplace_back(fmt::format("token {}", own.count), now);
}

// Attributes by the semantic conventions of generative models.
void GenerationJob::add_spans(std::size_t choice, const Completion& completion) {
  RequestSpans& spans = *work_.request.spans;
  const auto whole_ns = [](std::chrono::duration<double> time) { return whole(time); };
  const auto arrived = work_.asked.arrived, ran = arrived + whole_ns(completion.queue_time),
             last = arrived + whole_ns(completion.time);
  // Without a token all of it is the prompt's.
  const auto first =
      completion.tokens.empty() ? last : std::max(ran, arrived + whole_ns(completion.time_to_first_token));
  const auto tokens = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  spans.add("queue", std::min(started_, ran), ran);
  spans.add("prefill", ran, first,
            {{"gen_ai.usage.input_tokens", tokens(completion.prompt_tokens)},
             {"gen_ai.usage.cache_read.input_tokens", tokens(completion.cached_tokens)}});
  spans.add("decode", first, last,
            {{"gen_ai.usage.output_tokens", tokens(completion.tokens.size())},
             {"gen_ai.response.finish_reasons", std::string(to_string(completion.reason))}},
            std::move(traced_[choice].sampled));
}

void GenerationJob::end(std::size_t choice, const std::optional<Error>& error, Completion&& completion) {
  const bool was_cancelled = !error && completion.reason == FinishReason::cancelled;
  if (error || was_cancelled) {
    const Error reason = error ? *error : Error(ErrorCode::interrupted, "the request was cancelled");
    model_->statistics().count(reason, work_.asked.arrived, true);
    tell([&](const GenerationListener& /*listener*/) { throw Error(reason); });
    return;
  }
  count(model_->statistics(), completion, work_.asked.arrived);
  if (work_.request.spans) add_spans(choice, completion);
  tell([&](GenerationListener& listener) {
    listener.ended(choice, std::move(completion));
    if (--missing_ != 0) return;
    listener_ = nullptr;
    model_->end_texts(number_);
    listener.done(std::nullopt);
  });
  submit_next();
}

// What `event` throws is the answer to the request, and ends the other texts.
void GenerationJob::tell(const std::function<void(GenerationListener&)>& event) {
  {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<GenerationListener> listener = listener_;
    if (!listener) return;
    try {
      event(*listener);
      return;
    } catch (...) {
      listener_ = nullptr;
      model_->end_texts(number_);
      listener->done(current_error());
    }
  }
  cancel_all();
}

}  // namespace gpux::server
