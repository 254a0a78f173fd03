#include "embedding/text_batching.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "embedding/recorded_texts.h"
#include "gpux/error.h"
#include "runtime/batch.h"

namespace gpux::embedding {
namespace {

/// Tokens and texts of the runs that are tried: lengths on both sides of the widths that kernels work in.
constexpr std::array<std::pair<std::size_t, std::size_t>, 5> trials{{{3, 4}, {7, 2}, {12, 3}, {20, 2}, {41, 2}}};

// Recorded texts of exactly so many tokens, or none.
std::vector<PreparedText> texts_of(const SentenceEncoder& encoder, std::size_t tokens, std::size_t count) {
  std::vector<PreparedText> found;
  for (const std::string_view text : recorded_texts()) {
    if (found.size() == count) break;
    PreparedText prepared = encoder.prepare(text, {.max_tokens = tokens});
    if (prepared.tokens == tokens) found.push_back(std::move(prepared));
  }
  return found;
}

bool same_bits(const Value& left, const Value& right) {
  const Tensor* a = left.tensor();
  const Tensor* b = right.tensor();
  return a != nullptr && b != nullptr && a->type() == b->type() && a->shape() == b->shape() &&
         std::ranges::equal(a->bytes(), b->bytes());
}

bool try_runs(const SentenceEncoder& encoder, const Runtime& runtime) {
  for (const auto& [tokens, count] : trials) {
    if (encoder.model().max_tokens != 0 && tokens > encoder.model().max_tokens) continue;
    std::vector<NamedValues> items;
    for (PreparedText& text : texts_of(encoder, tokens, count)) items.push_back(std::move(text.inputs));
    if (items.size() < 2) continue;
    const std::vector<NamedValues> together = runtime.batch_infer(items, {}, items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const NamedValues alone = runtime.infer(items[i]);
      // All outputs: a server gives the vectors of the tokens, too.
      for (std::size_t k = 0; k < alone.size(); ++k) {
        if (!same_bits(alone[k].second, together[i][k].second)) return false;
      }
    }
  }
  return true;
}

// A model that fails together with others is run alone, and tells then what is wrong.
bool same_together_as_alone(const SentenceEncoder& encoder, const Runtime& runtime) {
  try {
    return try_runs(encoder, runtime);
  } catch (const Error& error) {
    log::info("texts that share a run: {}", error.message());
    return false;
  }
}

}  // namespace

runtime::BatchLimits find_batch_limits(const SentenceEncoder& encoder, const Runtime& runtime) {
  const std::vector<std::string>& active = runtime.verdict().active;
  const bool on_cpu = active.size() == 1 && (active.front() == "cpu" || active.front() == "encoder");
  // Past about so many tokens a processor is as busy as it gets, and the others wait.
  const runtime::BatchLimits of_processor{.max_rows = 16, .max_cost = 256};
  const runtime::BatchLimits of_device{.max_rows = 128, .max_cost = 8192};
  if (encoder.batching() == Batching::throughput) return on_cpu ? of_processor : of_device;
  // Other devices choose their kernels by size, so that a few runs would prove nothing.
  const bool exact =
      on_cpu && runtime::can_share_runs(runtime.info().signature) && same_together_as_alone(encoder, runtime);
  log::info("texts of one length {} a run: their vectors are {}the same to the bit", exact ? "share" : "do not share",
            exact ? "" : "not known to be ");
  return exact ? of_processor : runtime::BatchLimits{.max_rows = 1};
}

}  // namespace gpux::embedding
