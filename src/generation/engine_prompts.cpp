#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/caught_error.h"
#include "base/format_message.h"
#include "base/log.h"
#include "base/sha256.h"
#include "generation/engine_state.h"
#include "generation/prompt_file.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

// How long the copies of blocks that were read delay a step of the other texts, beside one copy.
constexpr std::chrono::milliseconds restore_time{10};
// While the model is loaded.
constexpr std::chrono::seconds preload_patience{2};
constexpr std::size_t first_run_tokens = 16;
// At the end of an engine.
constexpr std::size_t max_last_prompts = 4;
constexpr std::chrono::seconds last_prompts_patience{5};

// Reads the files, where nothing stands for their content.
std::string content_of(const ModelInfo& model, const std::string& digest) {
  if (!digest.empty()) return fmt::format("package {} {}\n", digest, model.path.filename().string());
  std::string text = fmt::format("model {}\n", sha256_of_file(model.path));
  for (const ExternalFile& file : model.external_files) {
    text += fmt::format("data {} {}\n", file.location, sha256_of_file(model.path.parent_path() / file.location));
  }
  return text;
}

}  // namespace

void Engine::State::open_prompt_store() {
  if (options.prompt_cache.empty()) return;
  if (!decoder.can_copy_tokens()) {
    throw Error(ErrorCode::usage,
                format_message("{} is '{}', and keys and values of this model stay in memory of a device; accepted: "
                               "providers that have them in memory of the host, as cpu and decoder do",
                               setting_named("prompt_cache"), options.prompt_cache.string()));
  }
  try {
    const std::string identity = content_of(decoder.runtime().info(), files.digest) + decoder.computed_by();
    prompt_store = std::make_unique<PromptStore>(PromptStore::Options{.folder = options.prompt_cache,
                                                                      .max_bytes = options.prompt_cache_bytes,
                                                                      .identity = sha256_of(identity),
                                                                      .layout = decoder.signature().cache},
                                                 [this] {
                                                   const std::lock_guard lock(mutex);
                                                   has_block = true;
                                                   changed.notify_all();
                                                 });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage) throw;
    store_failure = fmt::format("prompts are not kept in files: {}", error.message());
    log::warning("{}", store_failure);
    return;
  }
  const PromptStoreStatistics found = prompt_store->statistics();
  log::info("prompts are kept in '{}': {} files of this model, {} bytes", prompt_store->folder().string(), found.files,
            found.bytes);
  preload_prompt();
}

// The prompt that was used last is in memory before the first request comes. A slow disk delays loading by little.
void Engine::State::preload_prompt() {
  const Clock::time_point deadline = Clock::now() + preload_patience;
  const std::size_t most = std::min<std::size_t>(context.context_length, max_cache_tokens);
  std::optional<PromptStore::Latest> latest = prompt_store->read_latest(most);
  if (!latest) return;
  const std::size_t tokens = latest->tokens.size(), slot = slots.free_slot();
  try {
    if (!share->resize(bytes_of(tokens), budget->next_age())) return;
    reserve(tokens);
    slots.take(slot, 0, {.scope = std::move(latest->scope), .tokens = std::move(latest->tokens)}, 0);
    while (Clock::now() < deadline) {
      const PromptStore::Taken taken = prompt_store->take(*latest->reading);
      if (taken.block) {
        const SlotTokens place{.slot = slot, .first = taken.block->first, .tokens = taken.block->tokens};
        reserve(place.first + place.tokens);
        copy([&] { decoder.write_tokens(place, taken.block->rows.bytes()); });
        slots.add_prompt(slot, taken.end - slots[slot].size);
      }
      if (taken.is_over) break;
      if (taken.block) continue;
      std::unique_lock lock(mutex);
      changed.wait_until(lock, deadline, [&] { return std::exchange(has_block, false); });
    }
    statistics.restored_tokens = slots.leave(slot);
    // A first run behind so many tokens takes what the first request would wait for.
    const std::vector<std::uint32_t> more(first_run_tokens, 0);
    const std::size_t end = slots[slot].size + more.size();
    if (end <= most) {
      reserve(end);
      const Decoder::Row row{slots[slot].size, more};
      (void)decoder.run(slot, {&row, 1});
      decoder.release(slot, slots[slot].size, end);
    }
  } catch (...) {
    // A worker process that has ended has lost what was copied.
    if (slots[slot].owner) slots.leave(slot);
    clear(slot);
    share->shrink(bytes_of(slots.tokens()));
    return log::info("a prompt is not read: {}", caught_error().message());
  }
  log::info("{} tokens of a prompt came from a file", statistics.restored_tokens);
}

void Engine::State::restore_prompts() {
  waits_for_files = false;
  if (!prompt_store || running.empty()) return;
  const Clock::time_point end = Clock::now() + restore_time;
  for (bool has_copied = true; has_copied && Clock::now() < end;) {
    has_copied = false;
    std::vector<SequenceId> ids;
    for (const auto& [id, one] : running) {
      if (one.reading) ids.push_back(id);
    }
    for (const SequenceId id : ids) {
      if (Clock::now() < end && running.contains(id)) has_copied = restore_block(id) || has_copied;
    }
  }
  waits_for_files =
      !running.empty() && std::ranges::all_of(running, [](const auto& one) { return one.second.reading != nullptr; });
}

// Stopped where a worker process hangs.
void Engine::State::copy(const std::function<void()>& copies) {
  begin_watching_copy();
  try {
    copies();
  } catch (...) {
    (void)end_watching();
    throw;
  }
  (void)end_watching();
}

// The worker process has ended in a copy, which may be the reason: one that ends in each copy would do so for ever.
void Engine::State::lose_copy(const CachesLost& loss) {
  if (++lost_copies == max_lost_copies) {
    log::warning("prompts are not kept in files any more: {} worker processes ended while keys and values were copied",
                 lost_copies);
  }
  go_on({}, {.error = loss, .has_lost_caches = true});
}

// Whether there was a block. A text that cannot have it computes its prompt itself.
bool Engine::State::restore_block(SequenceId id) {
  Running& one = running.at(id);
  const PromptStore::Taken taken = prompt_store->take(*one.reading);
  bool is_over = taken.is_over;
  const std::size_t size = slots[one.slot].size;
  if (taken.block && taken.block->first <= size && taken.end > size) {
    const std::size_t added = taken.end - size;
    if (!make_room(added)) is_over = true;
    if (!running.contains(id)) return true;
    if (is_short_of_memory) {
      end_restoring(id);
      return true;
    }
    try {
      const SlotTokens place{.slot = one.slot, .first = taken.block->first, .tokens = taken.block->tokens};
      // At once for the whole prompt: growing copies what is there.
      reserve(std::max(place.first + place.tokens, one.sequence->prefill_tokens()));
      copy([&] { decoder.write_tokens(place, taken.block->rows.bytes()); });
      slots.add_prompt(one.slot, added);
      one.sequence->restore(taken.end);
      count([&](EngineStatistics& counts) {
        counts.reused_tokens += added;
        counts.restored_tokens += added;
      });
    } catch (const CachesLost& loss) {
      lose_copy(loss);
      return true;
    } catch (...) {
      log::info("a prompt is computed instead of restored: {}", caught_error().message());
      is_over = true;
    }
  }
  if (is_over) end_restoring(id);
  return taken.block.has_value();
}

void Engine::State::end_restoring(SequenceId id) {
  Running& one = running.at(id);
  one.reading.reset();
  log::info("{} tokens of a prompt came from a file", slots[one.slot].size - one.shared);
  begin_prompt(id);
}

// Copies what the slot holds of a prompt, if it is worth a file. It takes a small part of the time that computing it
// took.
void Engine::State::store_prompt(std::size_t slot, std::size_t shared, Clock::time_point deadline) {
  if (!uses_prompt_store()) return;
  const SlotTable::Slot& held = slots[slot];
  std::optional<PromptStore::Draft> draft;
  try {
    const std::span<const std::uint32_t> prompt = std::span(held.prompt).first(held.computed);
    const std::size_t tokens = prompt_store->tokens_to_store(held.scope, prompt, shared);
    if (tokens == 0) return;
    draft = prompt_store->begin_write(held.scope, prompt.first(tokens), deadline);
    if (!draft) return;
    for (const TokenBlock& block : blocks_of(decoder.signature().cache, tokens)) {
      copy([&] {
        decoder.read_tokens({.slot = slot, .first = block.first, .tokens = block.tokens},
                            draft->rows.bytes().subspan(block.offset, block.bytes));
      });
    }
    prompt_store->write(*std::move(draft));
  } catch (const CachesLost& loss) {
    if (draft) prompt_store->drop(*draft);
    lose_copy(loss);
  } catch (...) {
    if (draft) prompt_store->drop(*draft);
    log::info("a prompt is not stored: {}", caught_error().message());
  }
}

// Those that were left for lack of time, and what conversations have now.
void Engine::State::store_prompts() {
  if (!uses_prompt_store()) return;
  std::vector<std::size_t> order;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot].computed >= least_stored_tokens) order.push_back(slot);
  }
  if (order.empty()) return;
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t slot) { return slots[slot].last_use; });
  order.resize(std::min(order.size(), max_last_prompts));
  const Clock::time_point deadline = Clock::now() + last_prompts_patience;
  for (const std::size_t slot : order) store_prompt(slot, 0, deadline);
}

}  // namespace gpux::generation
