#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "generation/decoder.h"
#include "generation/draft_model.h"
#include "generation/engine.h"
#include "generation/prompt_store.h"
#include "generation/run_ahead.h"
#include "generation/run_watch.h"
#include "generation/sequence.h"
#include "generation/slot_table.h"
#include "generation/step_plan.h"

namespace gpux::generation {

/// State of an engine, and its thread's loop, work(). Other threads call the constructor and end_all() alone. Each
/// group of functions is in the file that it names.
struct Engine::State {
  struct Waiting {
    SequenceId id;
    std::unique_ptr<Sequence> sequence;
  };

  struct RunFailure {
    Error error;
    bool was_stopped = false;  // by watch()
    bool has_lost_caches = false, had_taken_run = false;
  };

  struct TextEnd {
    SequenceId id;
    FinishReason reason;
    std::optional<Error> error;  // instead of the reason
  };

  // What a text runs next.
  struct DecodedText {
    SequenceId id;
    std::size_t past;
    std::vector<std::uint32_t> tokens;  // those that it has and that have not run, and then guessed ones
    std::size_t known = 1;              // of them, those that are certain
    std::size_t guessed = 0;            // behind them
    bool is_drafted = false;            // by the draft model
  };

  // A draft model, and what is known of it.
  struct Drafting {
    // `size_share`: as of DraftCosts.
    Drafting(DraftSource source, const SequenceContext& context, std::size_t slots, double size_share)
        : is_always_used(source.is_always_used),
          patience(source.patience),
          model(std::move(source), context.tokenizer, slots),
          costs(size_share) {}

    static constexpr double guesses_before_first = 8;

    bool is_always_used;
    std::chrono::milliseconds patience;
    DraftModel model;
    DraftCosts costs;
    TrialTime trials;
    // Of all texts. One wrong guess does not end the first of them.
    Acceptance acceptance{guesses_before_first};
    bool is_on = true;  // it has not failed
  };

  struct Running {
    std::unique_ptr<Sequence> sequence;
    std::size_t slot = 0;
    std::uint64_t last_turn = 0;  // of its prompt
    std::size_t shared = 0;       // tokens of its prompt that others had in memory
    // Keys and values from a file, which come before its prompt runs; null: none come.
    std::shared_ptr<PromptStore::Reading> reading{};
  };

  ModelFiles files;
  GeneratorOptions options;
  Decoder decoder;
  SequenceContext context;
  std::unique_ptr<Drafting> drafting;  // null: there is none
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
  bool waits_for_files = false;     // each text that runs
  std::vector<float> own_logits;    // a row of them that no other process can change
  StepCosts step_costs;             // of the texts that decode

  // Used by all threads, under the mutex.
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::list<Waiting> waiting;  // by age, those that were preempted among them; erased by the engine's thread alone
  std::set<SequenceId> cancelled;
  std::size_t open = 0;  // requests that have not ended
  bool is_draining = false, is_ending = false, is_memory_wanted = false;
  bool has_block = false;  // of a file, which a text waits for
  EngineStatistics statistics;

  std::shared_ptr<CacheBudget> budget;
  std::unique_ptr<CacheShare> share;  // before those that release() uses

  // Where the decoder is in a worker process: the run that is under way, for watch().
  std::optional<WatchedRun> watched_run;
  Decoder* watched_decoder = nullptr;
  bool is_run_stopped = false;
  std::condition_variable_any watched;

  std::unique_ptr<PromptStore> prompt_store;  // null: prompts are in memory alone
  std::size_t lost_copies = 0;                // worker processes that ended in a copy from or to a file
  static constexpr std::size_t max_lost_copies = 3;
  std::string store_failure;  // why, where there should be one

  std::thread thread;
  std::jthread watcher;  // last: it uses the rest

  State(Runtime runtime, text::Tokenizer tokenizer, ModelFiles model_files, const GeneratorOptions& given,
        std::shared_ptr<CacheBudget> shared_budget, std::unique_ptr<DraftSource> draft);

  // engine.cpp: how much there is room for.
  void add_end_tokens();
  void bound_context();
  void measure_vocabulary();
  void require_draft_runs() const;
  [[nodiscard]] bool uses_workers() const noexcept;

  // engine_run.cpp: what runs next.
  void work();
  bool wait_for_work();
  void publish(std::uint64_t limit);
  void run_step();
  [[nodiscard]] std::size_t left_of_prompt(SequenceId id) const;
  std::optional<RunFailure> run(const std::vector<SequenceId>& ids, std::size_t first_slot,
                                std::span<const Decoder::Row> rows, Tensor& logits, LogitRows wanted = LogitRows::last);
  std::optional<TextEnd> advance(SequenceId id, std::span<const float> logits);
  void finish(const TextEnd& end);
  void run_prompt(SequenceId id, std::size_t tokens);
  void end_after_run(std::vector<SequenceId> ids, const RunFailure& failure);
  void go_on(const std::vector<SequenceId>& ids, const RunFailure& failure);
  void end_longest(const std::vector<SequenceId>& ids, const Error& error);

  // engine_decode.cpp: the next tokens of the texts that decode.
  void run_decode();
  [[nodiscard]] std::vector<DecodedText> texts_that_decode();
  [[nodiscard]] std::vector<AheadRow> ahead_rows(std::span<const DecodedText> texts);
  std::optional<std::size_t> tokens_of_each(std::span<DecodedText> texts, std::size_t prompt_tokens);
  bool has_memory_for(std::size_t texts, std::size_t length);
  void take_logits(std::span<const DecodedText> texts, std::size_t length, const Tensor& logits);

  // engine_draft.cpp: the guesses of the draft model.
  [[nodiscard]] bool can_draft() const noexcept { return drafting && drafting->is_on; }

  void add_draft(std::span<const DecodedText> texts, std::span<AheadRow> rows);
  AheadPlan plan_with_draft(std::span<AheadRow> rows);
  bool begin_trial(std::span<AheadRow> rows, const DraftShares& shares);
  bool read_for_draft(std::span<const DecodedText> texts, std::span<AheadRow> rows, std::size_t drafted,
                      std::size_t prompt_tokens);
  void draft_guesses(std::span<DecodedText> texts, std::span<const AheadRow> rows, std::size_t drafted);
  void count_draft(std::size_t slot, const GuessCounts& guesses);
  void end_drafting(const Error& error) noexcept;
  template <typename Work>
  bool run_draft(std::span<const DecodedText> texts, std::size_t tokens, const Work& work);

  // engine_admission.cpp: which text gets a slot.
  [[nodiscard]] std::size_t promised_tokens() const;
  bool has_room_for(const Waiting& next);
  [[nodiscard]] std::vector<Claim> claims() const;
  std::optional<Waiting> next_waiting();
  void admit();
  void give_slot(Waiting& next);
  void begin_prompt(SequenceId id);
  void start_decoding(SequenceId id);

  // engine_memory.cpp: where keys and values are, and who makes room for whom.
  void reserve(std::size_t tokens);
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t tokens) const noexcept;
  void cut(std::size_t slot, std::size_t first, std::size_t end);
  void clear(std::size_t slot);
  void exchange(std::size_t a, std::size_t b);
  std::unique_ptr<Sequence> take_out(SequenceId id);
  void clear_kept();
  void preempt(SequenceId id);
  bool find_memory(std::size_t tokens, SequenceId oldest);
  [[nodiscard]] SequenceId next_to_preempt() const;
  bool make_room(std::size_t tokens);
  void wait_for_memory(SequenceId oldest);

  // engine_prompts.cpp: keys and values of prompts in files.
  void open_prompt_store();
  void preload_prompt();
  void restore_prompts();
  bool restore_block(SequenceId id);
  void copy(const std::function<void()>& copies);
  void end_restoring(SequenceId id);
  void lose_copy(const CachesLost& loss);

  [[nodiscard]] bool uses_prompt_store() const noexcept { return prompt_store && lost_copies < max_lost_copies; }

  void store_prompt(std::size_t slot, std::size_t shared, std::chrono::steady_clock::time_point deadline);
  void store_prompts();

  // engine_watch.cpp: ends runs in a worker process that nobody waits for.
  void begin_watching(const std::vector<SequenceId>& ids, Decoder& runs,
                      std::optional<std::chrono::steady_clock::time_point> limit = {});
  void begin_watching_copy();
  bool end_watching();
  void watch(const std::stop_token& end);

  // engine_ends.cpp: how texts end.
  void count_end(const std::optional<Error>& error, bool is_cancelled);
  void end_early(Sequence& sequence, bool is_cancelled);
  void fail(Sequence& sequence, const Error& error) noexcept;
  void fail(SequenceId id, const Error& error);
  void end_unwanted();
  void end_after(const Error& error) noexcept;
  void end_all();

  template <typename Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex);
    change(statistics);
  }
};

}  // namespace gpux::generation
