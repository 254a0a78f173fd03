#include "generation/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/start_thread.h"
#include "generation/end_tokens.h"
#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

// Slots beyond those of sequences: they keep prompts, and one is the second row of a pair.
constexpr std::size_t spare_slots = 4;

void check(const GeneratorOptions& options) {
  constexpr std::size_t limit_sequences = 256, limit_waiting = 1 << 20, limit_chunk = 1 << 16;
  const auto require = [](std::string_view name, std::size_t value, std::size_t low, std::size_t high) {
    if (value >= low && value <= high) return;
    throw Error(ErrorCode::usage, fmt::format("{} is {}; accepted: {} to {}", name, value, low, high));
  };
  require("max_sequences", options.max_sequences, 1, limit_sequences);
  require("max_waiting", options.max_waiting, 0, limit_waiting);
  require("prompt_chunk", options.prompt_chunk, 2, limit_chunk);
  if (options.prompt_chunk % 2 != 0) {
    throw Error(ErrorCode::usage, fmt::format("prompt_chunk is {}; accepted: even numbers", options.prompt_chunk));
  }
  if (options.prompt_cache.empty()) return;
  constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
  if (options.prompt_cache_bytes < least_bytes) {
    throw Error(ErrorCode::usage, fmt::format("prompt_cache_bytes is {}; accepted: {} and more",
                                              options.prompt_cache_bytes, least_bytes));
  }
  if (!options.reuses_prefixes) {
    throw Error(ErrorCode::usage, format_message("{} is '{}', and prompts are not reused; accepted: one of both",
                                                 setting_named("prompt_cache"), options.prompt_cache.string()));
  }
}

// Weights decide how long a step takes.
double size_share(const ModelInfo& draft, const ModelInfo& model) {
  return static_cast<double>(draft.total_bytes()) /
         static_cast<double>(std::max<std::uint64_t>(model.total_bytes(), 1));
}

}  // namespace

Engine::State::State(Runtime runtime, text::Tokenizer tokenizer, ModelFiles model_files, const GeneratorOptions& given,
                     std::shared_ptr<CacheBudget> shared_budget, std::unique_ptr<DraftSource> draft)
    : files(std::move(model_files)),
      options(given),
      decoder(std::move(runtime), given.max_sequences + spare_slots),
      context{std::move(tokenizer)},
      slots(given.max_sequences + spare_slots),
      budget(std::move(shared_budget)) {
  context.spelling = token_spelling(context.tokenizer);
  add_end_tokens();
  context.defaults = files.defaults;
  context.looks_up_prompts = options.prompt_lookup;
  context.has_float16_caches = decoder.signature().cache.type == ElementType::float16;
  if (draft) {
    const double size = size_share(draft->runtime.info(), decoder.runtime().info());
    drafting = std::make_unique<Drafting>(std::move(*draft), context, slots.size(), size);
  }
  bound_context();
  measure_vocabulary();
  require_draft_runs();
  open_prompt_store();
  statistics.slots = options.max_sequences;
  statistics.max_cache_bytes = bytes_of(max_cache_tokens);
}

void Engine::State::require_draft_runs() const {
  if (drafting) require_runs_ahead(decoder, "the model", drafting->model.name());
}

bool Engine::State::uses_workers() const noexcept {
  return decoder.is_shared_with_worker() || (drafting && drafting->model.decoder().is_shared_with_worker());
}

void Engine::State::add_end_tokens() {
  if (files.tokenizer.empty()) return;
  std::vector<std::uint32_t>& ends = files.defaults.end_tokens;
  for (const std::uint32_t token : end_tokens_beside(files.tokenizer.parent_path(), context.tokenizer)) {
    if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
  }
}

// A sequence alone always fits, so that one that is preempted comes to its end.
void Engine::State::bound_context() {
  budget->measure();
  const std::uint64_t per_token = std::max<std::uint64_t>(bytes_of(1), 1);
  const std::uint64_t bytes = options.cache_bytes != 0 ? options.cache_bytes : budget->limit_bytes();
  if (options.cache_bytes > budget->free_bytes()) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("cache_bytes is {}; accepted: up to {}, the memory that models do not take",
                            options.cache_bytes, budget->free_bytes()));
  }
  cache_bytes = bytes;
  max_cache_tokens = bytes / per_token;
  const std::size_t wanted = options.context_length != 0 ? options.context_length : files.context_length;
  if (wanted > files.context_length) {
    throw Error(ErrorCode::usage,
                fmt::format("context_length is {}; accepted: up to {}, the model's", wanted, files.context_length));
  }
  constexpr std::uint64_t least_context = 16;
  if (max_cache_tokens < std::min<std::uint64_t>(wanted, least_context) ||
      (options.context_length != 0 && max_cache_tokens < wanted)) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("keys and values of {} tokens take {} bytes; {} are allowed (cache_bytes)", wanted,
                            wanted * per_token, bytes));
  }
  context.context_length = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, max_cache_tokens));
  const std::uint64_t least = options.cache_bytes != 0 ? bytes : context.context_length * per_token;
  share = std::make_unique<CacheShare>(budget, least, [this] {
    const std::lock_guard lock(mutex);
    is_memory_wanted = true;
    changed.notify_all();
  });
}

// First runs also take what the first request would wait for.
void Engine::State::measure_vocabulary() {
  const std::vector<std::uint32_t> tokens(2, 0);
  reserve(tokens.size());
  const Decoder::Row row{0, tokens};
  vocabulary = static_cast<std::size_t>(decoder.run(0, {&row, 1}).shape().back());
  decoder.compare_rows(vocabulary, context.context_length);
  for (std::size_t slot = 0; slot < 3; ++slot) decoder.release(slot, 0, tokens.size());
}

std::uint64_t cache_address_bytes(const CacheLayout& cache, std::size_t context_length,
                                  const GeneratorOptions& options) noexcept {
  const std::uint64_t tokens = (options.context_length != 0 ? options.context_length : context_length) + 1;
  // Where they grow, the earlier ones are still there, and some addresses are left to all else.
  constexpr std::uint64_t times = 2, spare = std::uint64_t{256} << 20;
  return times * tokens * (options.max_sequences + spare_slots) * cache.bytes_per_token() + spare;
}

Engine::Engine(Runtime runtime, text::Tokenizer tokenizer, ModelFiles files, const GeneratorOptions& options,
               std::shared_ptr<CacheBudget> budget, std::unique_ptr<DraftSource> draft) {
  check(options);
  state_ = std::make_unique<State>(std::move(runtime), std::move(tokenizer), std::move(files), options,
                                   std::move(budget), std::move(draft));
  if (state_->uses_workers()) {
    state_->watcher =
        start_thread<std::jthread>([state = state_.get()](const std::stop_token& end) { state->watch(end); });
  }
  state_->thread = start_thread([state = state_.get()] { state->work(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
    state_->changed.notify_all();
  }
  state_->decoder.stop();
  if (state_->drafting) state_->drafting->model.decoder().stop();
  state_->thread.join();
  state_->store_prompts();
  state_->end_all();
}

Engine::Ticket Engine::submit(EngineRequest request) {
  generation::check(request.settings);
  const bool is_taken_on = request.continues_number;
  auto sequence = std::make_unique<Sequence>(std::move(request), state_->context, state_->vocabulary);
  const std::lock_guard lock(state_->mutex);
  if ((state_->is_draining && !is_taken_on) || state_->is_ending) {
    throw Error(ErrorCode::interrupted, "the model is being unloaded");
  }
  const GeneratorOptions& options = state_->options;
  if (!is_taken_on && state_->open >= options.max_sequences + options.max_waiting) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("the model has {} requests; accepted: up to {} that run (max_sequences) and {} that wait "
                            "(max_waiting)",
                            state_->open, options.max_sequences, options.max_waiting));
  }
  const SequenceId id = state_->budget->next_age();
  state_->waiting.push_back({id, std::move(sequence)});
  ++state_->open;
  state_->changed.notify_all();
  state_->watched.notify_all();
  return id;
}

std::shared_ptr<const text::TokenConstraint> Engine::constraint(const OutputConstraint& constraint) const {
  return std::make_shared<const text::TokenConstraint>(state_->context.vocabulary(state_->vocabulary), constraint);
}

void Engine::cancel(Ticket ticket) {
  const std::lock_guard lock(state_->mutex);
  state_->cancelled.insert(ticket);
  state_->changed.notify_all();
}

void Engine::drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  state_->is_draining = true;
  state_->changed.wait_until(lock, deadline, [&] { return state_->open == 0; });
}

EngineStatistics Engine::statistics() const {
  EngineStatistics now;
  {
    const std::lock_guard lock(state_->mutex);
    now = state_->statistics;
  }
  if (state_->prompt_store) now.files = state_->prompt_store->statistics();
  return now;
}

std::size_t Engine::context_length() const noexcept {
  return state_->context.context_length;
}

std::size_t Engine::vocabulary_size() const noexcept {
  return state_->vocabulary;
}

const text::Tokenizer& Engine::tokenizer() const noexcept {
  return state_->context.tokenizer;
}

const ModelFiles& Engine::files() const noexcept {
  return state_->files;
}

const Runtime& Engine::runtime() const noexcept {
  return state_->decoder.runtime();
}

const Runtime* Engine::draft_runtime() const noexcept {
  return state_->drafting ? &state_->drafting->model.runtime() : nullptr;
}

Verdict Engine::verdict() const {
  Verdict verdict = state_->decoder.verdict();
  if (!state_->store_failure.empty()) verdict.notes.emplace_back(state_->store_failure);
  if (state_->drafting) {
    verdict.notes.emplace_back(
        fmt::format("tokens are guessed by the draft model '{}'", state_->drafting->model.name()));
  }
  const std::size_t context = state_->context.context_length;
  if (state_->options.context_length == 0 && context < state_->files.context_length) {
    verdict.notes.emplace_back(
        fmt::format("the context is {} tokens instead of {}: the memory for keys and values ({} bytes) "
                    "holds no more",
                    context, state_->files.context_length, state_->cache_bytes));
  }
  return verdict;
}

std::uint64_t Engine::memory_needed(std::size_t tokens) const noexcept {
  return state_->bytes_of(tokens);
}

}  // namespace gpux::generation
