#include "generation/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/caught_error.h"
#include "base/log.h"
#include "base/start_thread.h"
#include "generation/decoder.h"
#include "generation/end_tokens.h"
#include "generation/sequence.h"
#include "generation/slot_table.h"
#include "generation/step_plan.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

// Slots beyond those of sequences: they keep prompts, and one is the second row of a pair.
constexpr std::size_t spare_slots = 4;

// Positions of a slot grow in steps of at least so many: the cache is copied then.
constexpr std::size_t least_capacity = 256;

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
}

// While it waits for memory of other engines, an engine looks for it this often.
constexpr std::chrono::milliseconds memory_interval{10};

}  // namespace

struct Engine::State {
  struct Waiting {
    SequenceId id;
    std::unique_ptr<Sequence> sequence;
  };

  struct Running {
    std::unique_ptr<Sequence> sequence;
    std::size_t slot = 0;
    std::uint64_t last_turn = 0;  // of its prompt
  };

  ModelFiles files;
  GeneratorOptions options;
  Decoder decoder;
  SequenceContext context;
  std::uint64_t max_cache_tokens = 0;
  std::uint64_t cache_bytes = 0;  // that keys and values may take
  std::size_t vocabulary = 0;

  // The engine's thread alone.
  SlotTable slots;
  std::map<SequenceId, Running> running;  // by age
  std::vector<SequenceId> prompts;        // of those, the ones whose prompts are not through
  std::uint64_t turns = 0;                // of prompts
  std::size_t prompt_tokens_in_turn = 0;
  bool is_short_of_memory = false;  // which other engines have

  // Of all threads, under the mutex.
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::list<Waiting> waiting;  // by age, those that were preempted among them; erased by the engine's thread alone
  std::set<SequenceId> cancelled;
  std::size_t open = 0;  // requests that have not ended
  bool is_draining = false, is_ending = false, is_memory_wanted = false;
  EngineStatistics statistics;

  std::shared_ptr<CacheBudget> budget;
  std::unique_ptr<CacheShare> share;  // before those that release() uses

  std::thread thread;

  State(Runtime runtime, text::Tokenizer tokenizer, ModelFiles model_files, const GeneratorOptions& given,
        std::shared_ptr<CacheBudget> shared_budget)
      : files(std::move(model_files)),
        options(given),
        decoder(std::move(runtime), given.max_sequences + spare_slots),
        context{std::move(tokenizer)},
        slots(given.max_sequences + spare_slots),
        budget(std::move(shared_budget)) {
    context.spelling = token_spelling(context.tokenizer);
    add_end_tokens();
    context.defaults = files.defaults;
    bound_context();
    measure_vocabulary();
    statistics.slots = options.max_sequences;
    statistics.max_cache_bytes = max_cache_tokens * decoder.signature().cache.bytes_per_token();
  }

  void add_end_tokens() {
    if (files.tokenizer.empty()) return;
    std::vector<std::uint32_t>& ends = files.defaults.end_tokens;
    for (const std::uint32_t token : end_tokens_beside(files.tokenizer.parent_path(), context.tokenizer)) {
      if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
    }
  }

  // A sequence alone always fits, so that one that is preempted comes to its end.
  void bound_context() {
    budget->measure();
    const std::uint64_t per_token = std::max<std::uint64_t>(decoder.signature().cache.bytes_per_token(), 1);
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
  void measure_vocabulary() {
    const std::vector<std::uint32_t> tokens(2, 0);
    reserve(tokens.size());
    const Decoder::Row row{0, tokens};
    vocabulary = static_cast<std::size_t>(decoder.run(0, {&row, 1}).shape().back());
    decoder.compare_rows(vocabulary, context.context_length);
    for (std::size_t slot = 0; slot < 3; ++slot) decoder.release(slot, 0, tokens.size());
  }

  void reserve(std::size_t tokens) {
    // One position more than a sequence can have is for the second row of a pair.
    const std::size_t most = context.context_length + 1;
    std::size_t capacity = least_capacity;
    while (capacity < tokens) capacity *= 2;
    decoder.reserve(std::max(std::min(capacity, most), tokens), slots.sizes());
  }

  // ---- the engine's thread ----

  void work() {
    while (wait_for_work()) {
      try {
        is_short_of_memory = false;
        end_unwanted();
        admit();
        run_step();
        share->shrink(bytes_of(slots.tokens()));
        if (running.empty() && !is_short_of_memory) share->stop_waiting();
#ifndef NDEBUG
        slots.check();
#endif
      } catch (...) {
        end_after(caught_error());
      }
    }
  }

  // False where the engine ends.
  bool wait_for_work() {
    const std::uint64_t limit = budget->limit_bytes();
    bool gives_memory = false;
    {
      std::unique_lock lock(mutex);
      publish(limit);
      const auto has_news = [&] { return is_ending || is_memory_wanted || !cancelled.empty(); };
      if (is_short_of_memory) {
        changed.wait_for(lock, memory_interval, has_news);
      } else {
        changed.wait(lock, [&] { return has_news() || !waiting.empty() || !running.empty(); });
      }
      if (is_ending) return false;
      gives_memory = std::exchange(is_memory_wanted, false);
    }
    if (gives_memory) clear_kept();
    return true;
  }

  void publish(std::uint64_t limit) {
    statistics.running = running.size();
    statistics.waiting = waiting.size();
    statistics.cached_tokens = slots.tokens();
    statistics.cache_bytes = bytes_of(statistics.cached_tokens);
    statistics.max_cache_bytes = std::min(bytes_of(max_cache_tokens), limit);
    changed.notify_all();
  }

  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t tokens) const noexcept {
    return tokens * decoder.signature().cache.bytes_per_token();
  }

  // An error that is of no text in particular ends those that run; or, if there are none, those that wait, so that it
  // is not met for ever.
  void end_after(const Error& error) noexcept {
    try {
      log::error("texts are ended: {}", error.message());
    } catch (...) {  // no memory for the line
    }
    std::list<Waiting> ended;
    if (running.empty()) {
      const std::lock_guard lock(mutex);
      ended.swap(waiting);
    }
    while (slots.decoding() != 0) slots.part();
    for (std::size_t slot = 0; slot < slots.size(); ++slot) clear(slot);
    prompts.clear();
    std::map<SequenceId, Running> ending;
    ending.swap(running);
    for (const auto& [id, one] : ending) fail(*one.sequence, error);
    for (const Waiting& one : ended) fail(*one.sequence, error);
  }

  template <typename Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex);
    change(statistics);
  }

  void count_end(const std::optional<Error>& error, bool is_cancelled) {
    const std::lock_guard lock(mutex);
    ++(error ? statistics.failed : is_cancelled ? statistics.cancelled : statistics.finished);
    --open;
  }

  static bool is_late(const Sequence& sequence, Clock::time_point now) {
    const std::optional<Clock::time_point>& deadline = sequence.request().deadline;
    return deadline && *deadline <= now;
  }

  void end_early(Sequence& sequence, bool is_cancelled) {
    if (is_cancelled) {
      count_end({}, true);
      sequence.end(FinishReason::cancelled);
      return;
    }
    fail(sequence, Error(ErrorCode::deadline_exceeded, "the text was not finished in time"));
  }

  void fail(Sequence& sequence, const Error& error) noexcept {
    count_end(error, false);
    sequence.fail(error);
  }

  void end_unwanted() {
    std::set<SequenceId> ids;
    std::list<Waiting> ended;
    const Clock::time_point now = Clock::now();
    {
      const std::lock_guard lock(mutex);
      ids.swap(cancelled);
      for (auto it = waiting.begin(); it != waiting.end();) {
        const auto next = std::next(it);
        if (ids.contains(it->id) || is_late(*it->sequence, now)) ended.splice(ended.end(), waiting, it);
        it = next;
      }
    }
    for (const Waiting& one : ended) end_early(*one.sequence, ids.contains(one.id));
    std::vector<SequenceId> leaving;
    for (const auto& [id, one] : running) {
      if (ids.contains(id) || is_late(*one.sequence, now)) leaving.push_back(id);
    }
    for (const SequenceId id : leaving) end_early(*take_out(id), ids.contains(id));
  }

  // The sequence's slot is of nobody then, and keeps the prompt.
  std::unique_ptr<Sequence> take_out(SequenceId id) {
    const auto found = running.find(id);
    Running& one = found->second;
    if (one.slot < slots.decoding()) {
      exchange(one.slot, slots.decoding() - 1);
      slots.part();
    }
    std::erase(prompts, id);
    const std::size_t slot = one.slot, size = slots[slot].size;
    decoder.release(slot, slots.leave(slot), size);
    if (!options.reuses_prefixes) clear(slot);
    std::unique_ptr<Sequence> sequence = std::move(one.sequence);
    running.erase(found);
    return sequence;
  }

  void clear(std::size_t slot) {
    decoder.release(slot, 0, slots[slot].size);
    slots.clear(slot);
  }

  void exchange(std::size_t a, std::size_t b) {
    if (a == b) return;
    decoder.exchange(a, slots[a].size, b, slots[b].size);
    slots.exchange(a, b);
    for (const std::size_t slot : {a, b}) {
      const std::optional<SequenceId>& owner = slots[slot].owner;
      if (owner) running.at(*owner).slot = slot;
    }
  }

  void clear_kept() {
    while (const std::optional<std::size_t> oldest = slots.least_recent()) clear(*oldest);
  }

  // The text starts anew later.
  void preempt(SequenceId id) {
    std::list<Waiting> again(1);  // first: nothing may fail behind take_out()
    again.front() = {id, take_out(id)};
    const std::lock_guard lock(mutex);
    ++statistics.preempted;
    waiting.splice(std::ranges::find_if(waiting, [&](const Waiting& one) { return one.id > id; }), again);
  }

  // Whether there is memory for so many tokens more. Prompts of earlier sequences go for it.
  bool find_memory(std::size_t tokens, SequenceId oldest) {
    for (;;) {
      const std::size_t wanted = slots.tokens() + tokens;
      if (wanted <= max_cache_tokens && share->resize(bytes_of(wanted), oldest)) return true;
      const std::optional<std::size_t> kept = slots.least_recent();
      if (!kept) return false;
      clear(*kept);
    }
  }

  [[nodiscard]] SequenceId next_to_preempt() const {
    std::vector<RunningText> texts;
    for (const auto& [id, one] : running) {
      texts.push_back({one.sequence->request().client, one.sequence->request().number});
    }
    return std::next(running.begin(), static_cast<std::ptrdiff_t>(plan_preemption(texts)))->first;
  }

  // The same, for those that run. Other texts go for it, but not the oldest; false where others have the memory: their
  // engines give it up where their texts came later, else this one has.
  bool make_room(std::size_t tokens) {
    for (;;) {
      if (running.empty()) return false;
      const SequenceId oldest = running.begin()->first;
      if (find_memory(tokens, oldest)) return true;
      if (running.size() == 1) {
        wait_for_memory(oldest);
        return false;
      }
      preempt(next_to_preempt());
    }
  }

  void wait_for_memory(SequenceId oldest) {
    is_short_of_memory = true;
    if (share->wait(oldest)) return;
    if (!running.empty()) preempt(running.begin()->first);
    clear_kept();
  }

  // Of those that run: what they hold, or will when their prompts are through.
  [[nodiscard]] std::size_t promised_tokens() const {
    std::size_t sum = 0;
    for (const auto& [id, one] : running) sum += std::max(slots[one.slot].size, one.sequence->tokens().size()) + 1;
    return sum;
  }

  bool has_room_for(const Waiting& next) {
    if (running.size() == options.max_sequences) return false;
    if (!running.empty() && promised_tokens() + next.sequence->tokens().size() > max_cache_tokens) return false;
    const SequenceId oldest = running.empty() ? next.id : std::min(next.id, running.begin()->first);
    if (find_memory(next.sequence->prompt_tokens(), oldest)) return true;
    if (running.empty()) wait_for_memory(oldest);
    return false;
  }

  // Of the requests whose texts wait, the one that has waited longest first, and of those that run.
  [[nodiscard]] std::vector<Claim> claims() const {
    std::vector<Claim> all;
    std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> places;
    const auto claim_of = [&](const Sequence& sequence) -> Claim& {
      const EngineRequest& request = sequence.request();
      const auto [place, is_new] =
          places.emplace(std::pair(std::string_view(request.client), request.number), all.size());
      if (is_new) all.push_back({.client = request.client, .request = request.number});
      return all[place->second];
    };
    for (const Waiting& one : waiting) ++claim_of(*one.sequence).waiting;
    for (const auto& [id, one] : running) ++claim_of(*one.sequence).running;
    return all;
  }

  // The text whose turn it is, where there is room for it. Texts of who has more slots make room.
  std::optional<Waiting> next_waiting() {
    for (;;) {
      std::list<Waiting>::iterator next;
      std::optional<SequenceId> yielding;
      {
        const std::lock_guard lock(mutex);
        if (waiting.empty()) return std::nullopt;
        const std::vector<Claim> all = claims();
        const std::optional<Admission> admission = plan_admission(all);
        if (!admission) return std::nullopt;
        const auto is_of = [&](const Sequence& sequence, std::size_t claim) {
          return sequence.request().number == all[claim].request && sequence.request().client == all[claim].client;
        };
        next = std::ranges::find_if(waiting, [&](const Waiting& one) { return is_of(*one.sequence, admission->next); });
        for (const auto& [id, one] : running) {
          if (admission->yielding && is_of(*one.sequence, *admission->yielding)) yielding = id;
        }
      }
      if (has_room_for(*next)) {
        const std::lock_guard lock(mutex);
        Waiting taken = std::move(*next);
        waiting.erase(next);
        return taken;
      }
      if (!yielding) return std::nullopt;
      preempt(*yielding);
    }
  }

  void admit() {
    while (std::optional<Waiting> next = next_waiting()) {
      try {
        give_slot(*next);
      } catch (...) {
        fail(*next->sequence, caught_error());
      }
    }
  }

  // There is room for it. Where it throws, the text has no slot, and nothing else has changed.
  void give_slot(Waiting& next) {
    Sequence& sequence = *next.sequence;
    const std::span<const std::uint32_t> prompt = sequence.tokens().first(sequence.prompt_tokens());
    SlotTable::Prompt own{.scope = sequence.request().cache_scope, .tokens = {prompt.begin(), prompt.end()}};
    own.scope += '\0';
    own.scope += sequence.request().settings.cache_salt;
    std::optional<SlotTable::Match> match;
    if (options.reuses_prefixes) match = slots.longest_match(own.scope, prompt);
    const std::size_t kept = match ? reusable_tokens(match->tokens, prompt.size()) : 0;
    // Before keys and values of a slot are given up.
    prompts.reserve(prompts.size() + 1);
    const auto entry = running.emplace(next.id, Running{.sequence = nullptr, .slot = 0, .last_turn = turns}).first;
    std::size_t slot = 0;
    try {
      if (!match || kept == 0) {
        slot = slots.free_slot();
        clear(slot);
      } else if (!slots[match->slot].owner && kept >= slots[match->slot].size / 2) {
        slot = match->slot;
        decoder.release(slot, kept, slots[slot].size);
      } else {
        slot = slots.free_slot(match->slot);
        clear(slot);
        decoder.copy(match->slot, slot, kept);
      }
    } catch (...) {
      running.erase(entry);
      throw;
    }
    entry->second.slot = slot;
    entry->second.sequence.swap(next.sequence);
    slots.take(slot, next.id, std::move(own), kept);
    sequence.start(kept);
    count([&](EngineStatistics& counts) { counts.reused_tokens += kept; });
    if (kept < prompt_part(prompt.size())) {
      prompts.push_back(next.id);
    } else {
      start_decoding(next.id);
    }
  }

  void start_decoding(SequenceId id) {
    exchange(running.at(id).slot, slots.decoding());
    slots.join();
  }

  void run_step() {
    std::optional<SequenceId> prompt;
    if (!prompts.empty()) {
      std::vector<PendingPrompt> pending;
      for (const SequenceId id : prompts) {
        const EngineRequest& request = running.at(id).sequence->request();
        pending.push_back({request.client, request.number, running.at(id).last_turn});
      }
      prompt = prompts[next_prompt(pending)];
    }
    const Step step = plan_step({.decoding = slots.decoding(),
                                 .prompt_tokens = prompt ? left_of_prompt(*prompt) : 0,
                                 .prompt_tokens_in_turn = prompt_tokens_in_turn},
                                options.prompt_chunk);
    if (step.kind == Step::Kind::prompt && prompt) run_prompt(*prompt, step.tokens);
    if (step.kind == Step::Kind::decode) run_decode();
  }

  [[nodiscard]] std::size_t left_of_prompt(SequenceId id) const {
    const Running& one = running.at(id);
    return prompt_part(one.sequence->prompt_tokens()) - slots[one.slot].size;
  }

  // What a run throws ends its sequences, and no others.
  std::optional<Error> run(std::size_t first_slot, std::span<const Decoder::Row> rows, Tensor& logits) {
    try {
      logits = decoder.run(first_slot, rows);
      return std::nullopt;
    } catch (...) {
      return caught_error();
    }
  }

  void fail(SequenceId id, const Error& error) { fail(*take_out(id), error); }

  // Whether the sequence is still there.
  bool advance(SequenceId id, std::span<const float> logits) {
    try {
      count([](EngineStatistics& counts) { ++counts.generated_tokens; });
      const std::optional<FinishReason> reason = running.at(id).sequence->advance(logits);
      if (!reason) return true;
      const std::unique_ptr<Sequence> sequence = take_out(id);
      count_end({}, false);
      sequence->end(*reason);
    } catch (...) {
      fail(id, caught_error());
    }
    return false;
  }

  void run_prompt(SequenceId id, std::size_t tokens) {
    if (!make_room(tokens) || !running.contains(id)) return;
    Running& one = running.at(id);
    one.last_turn = ++turns;
    const std::size_t slot = one.slot, past = slots[slot].size, length = one.sequence->prompt_tokens();
    try {
      reserve(past + tokens);
    } catch (...) {
      return fail(id, caught_error());
    }
    const Decoder::Row row{past, one.sequence->tokens().subspan(past, tokens)};
    Tensor logits;
    if (const std::optional<Error> error = run(slot, {&row, 1}, logits)) return fail(id, *error);
    slots.add_prompt(slot, tokens);
    prompt_tokens_in_turn += tokens;
    count([&](EngineStatistics& counts) {
      ++counts.steps;
      counts.prompt_tokens += tokens;
    });
    if (past + tokens < prompt_part(length)) return;
    std::erase(prompts, id);
    // A sequence that was preempted has tokens behind its prompt.
    const bool is_last = past + tokens == one.sequence->tokens().size();
    if (is_last && !advance(id, logits.as<float>())) return;
    start_decoding(id);
  }

  void run_decode() {
    prompt_tokens_in_turn = 0;
    if (!make_room(slots.decoding())) return;
    const std::size_t count_of_rows = slots.decoding();
    if (count_of_rows == 0) return;
    std::vector<SequenceId> ids;
    std::vector<Decoder::Row> rows;
    std::size_t longest = 0;
    for (std::size_t slot = 0; slot < count_of_rows; ++slot) {
      ids.push_back(slots[slot].owner.value_or(0));
      const std::size_t past = slots[slot].size;
      rows.push_back({past, running.at(ids.back()).sequence->tokens().subspan(past, 1)});
      longest = std::max(longest, past);
    }
    // What the second row of a pair writes is behind the tokens of its slot.
    static constexpr std::uint32_t any_token = 0;
    if (decoder.needs_pairs() && decoder.can_batch() && count_of_rows % 2 != 0) {
      rows.push_back({slots[count_of_rows].size, {&any_token, 1}});
      longest = std::max(longest, rows.back().past);
    }
    try {
      reserve(longest + 1);
    } catch (...) {
      return end_longest(ids, caught_error());
    }
    Tensor logits;
    if (const std::optional<Error> error = run(0, rows, logits)) return end_after_run(ids, *error);
    count([](EngineStatistics& counts) { ++counts.steps; });
    for (std::size_t i = 0; i < ids.size(); ++i) slots.add_generated(i);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Running& one = running.at(ids[i]);
      if (slots[one.slot].size < one.sequence->tokens().size()) continue;
      (void)advance(ids[i], logits.as<float>().subspan(i * vocabulary, vocabulary));
    }
  }

  // A device without memory for all texts may have it for the shorter ones.
  void end_after_run(const std::vector<SequenceId>& ids, const Error& error) {
    if (error.code() == ErrorCode::resource_exhausted && ids.size() > 1) {
      const auto size_of = [&](SequenceId id) { return slots[running.at(id).slot].size; };
      return fail(*std::ranges::max_element(ids, {}, size_of), error);
    }
    for (const SequenceId id : ids) fail(id, error);
  }

  // There is no memory for the next token of the longest texts. The others go on.
  void end_longest(const std::vector<SequenceId>& ids, const Error& error) {
    const std::size_t capacity = decoder.capacity(), spare = slots.decoding();
    bool is_ended = false;
    for (const SequenceId id : ids) {
      if (slots[running.at(id).slot].size + 1 <= capacity) continue;
      fail(id, error);
      is_ended = true;
    }
    if (is_ended) return;
    // It is the second row of a pair that is too long.
    const std::optional<SequenceId> owner = slots[spare].owner;
    if (owner) return fail(*owner, error);
    clear(spare);
  }

  void end_all() {
    const Error error(ErrorCode::interrupted, "the model was unloaded");
    std::list<Waiting> rest;
    {
      const std::lock_guard lock(mutex);
      rest.splice(rest.end(), waiting);
    }
    for (auto& [id, one] : running) one.sequence->fail(error);
    for (const Waiting& one : rest) one.sequence->fail(error);
    running.clear();
  }
};

Engine::Engine(Runtime runtime, text::Tokenizer tokenizer, ModelFiles files, const GeneratorOptions& options,
               std::shared_ptr<CacheBudget> budget) {
  check(options);
  state_ =
      std::make_unique<State>(std::move(runtime), std::move(tokenizer), std::move(files), options, std::move(budget));
  state_->thread = start_thread([state = state_.get()] { state->work(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
    state_->changed.notify_all();
  }
  state_->decoder.stop();
  state_->thread.join();
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
  const std::lock_guard lock(state_->mutex);
  return state_->statistics;
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

Verdict Engine::verdict() const {
  Verdict verdict = state_->decoder.verdict();
  const std::size_t context = state_->context.context_length;
  if (state_->options.context_length == 0 && context < state_->files.context_length) {
    verdict.notes.push_back(
        fmt::format("the context is {} tokens instead of {}: the memory for keys and values ({} bytes) "
                    "holds no more",
                    context, state_->files.context_length, state_->cache_bytes));
  }
  return verdict;
}

std::uint64_t Engine::memory_needed(std::size_t tokens) const noexcept {
  return tokens * state_->decoder.signature().cache.bytes_per_token();
}

}  // namespace gpux::generation
