#include "embedding/text_batching.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/sha256.h"
#include "embedding/near_vectors.h"
#include "embedding/recorded_texts.h"
#include "gpux/error.h"
#include "provider/shape_profile.h"
#include "provider/table.h"
#include "runtime/scheduling/batch.h"
#include "runtime/sharing/trial_memory.h"

namespace gpux::embedding {
namespace {

using Source = RunSharing::Source;

/// Tokens and texts of the runs that are tried: lengths on both sides of the widths that kernels work in.
constexpr std::array<std::pair<std::size_t, std::size_t>, 5> trials{{{3, 4}, {7, 2}, {12, 3}, {20, 2}, {41, 2}}};

// Recorded texts of exactly so many tokens, or none.
std::vector<PreparedText> texts_of(const SentenceEncoder& encoder, std::size_t tokens, std::size_t count) {
  std::vector<PreparedText> found;
  for (const std::string_view text : recorded_texts()) {
    if (found.size() == count) break;
    EmbedOptions options{.max_tokens = tokens};
    // Texts of all tasks share runs.
    const std::size_t tasks = encoder.model().tasks.size(), task = found.size() % (tasks + 1);
    if (encoder.takes_task() && task != tasks) options.task = task;
    PreparedText prepared = encoder.prepare(text, options);
    if (prepared.tokens == tokens) found.push_back(std::move(prepared));
  }
  return found;
}

// Errors of the run; invalid_model where the outputs are not rows of the inputs.
std::vector<NamedValues> infer_in_one_run(const Runtime& runtime, std::span<const NamedValues> items,
                                          const InferOptions& options, const runtime::Padding* padding,
                                          std::int64_t filled_rows = 0) {
  runtime::BatchGroup group;
  for (std::size_t i = 0; i < items.size(); ++i) {
    group.items.push_back(i);
    group.rows.push_back(1);
  }
  if (items.size() > 1) group.filler_rows = std::max<std::int64_t>(filled_rows - group.own_rows(), 0);
  const NamedValues results = runtime.infer(runtime::concatenate(items, group, padding), options);
  std::vector<NamedValues> parts = runtime::split(results, group, items, padding);
  if (parts.empty()) throw Error(ErrorCode::invalid_model, "the model's outputs do not have a row for each text");
  return parts;
}

bool same_bits(const Value& left, const Value& right) {
  const Tensor* a = left.tensor();
  const Tensor* b = right.tensor();
  return a != nullptr && b != nullptr && a->type() == b->type() && a->shape() == b->shape() &&
         std::ranges::equal(a->bytes(), b->bytes());
}

// Whether all outputs are those of each alone: a server gives the vectors of the tokens, too.
bool same_as_alone(const Runtime& runtime, std::span<const NamedValues> items, const runtime::Padding* padding) {
  const std::vector<NamedValues> together = infer_in_one_run(runtime, items, {}, padding);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const NamedValues alone = runtime.infer(items[i]);
    for (std::size_t k = 0; k < alone.size(); ++k) {
      if (!same_bits(alone[k].second, together[i][k].second)) return false;
    }
  }
  return true;
}

// Texts that are to share a run, for each of the lengths that are tried.
using TriedTexts = std::vector<std::vector<NamedValues>>;

TriedTexts texts_of_trials(const SentenceEncoder& encoder) {
  TriedTexts all;
  for (const auto& [tokens, count] : trials) {
    if (encoder.model().max_tokens != 0 && tokens > encoder.model().max_tokens) continue;
    std::vector<NamedValues>& items = all.emplace_back();
    for (PreparedText& text : texts_of(encoder, tokens, count)) items.push_back(std::move(text.inputs));
  }
  return all;
}

std::vector<NamedValues> in_one_list(const TriedTexts& texts) {
  std::vector<NamedValues> items;
  for (const std::vector<NamedValues>& group : texts) items.insert(items.end(), group.begin(), group.end());
  return items;
}

bool try_one_length(const Runtime& runtime, const TriedTexts& texts) {
  return std::ranges::all_of(texts, [&](const std::vector<NamedValues>& items) {
    return items.size() < 2 || same_as_alone(runtime, items, nullptr);
  });
}

bool try_all_lengths(const Runtime& runtime, const TriedTexts& texts, const runtime::Padding& padding) {
  const std::vector<NamedValues> items = in_one_list(texts);
  return items.size() > 1 && same_as_alone(runtime, items, &padding);
}

// Of the first length that there are texts of.
std::vector<NamedValues> texts_of_throughput(const SentenceEncoder& encoder, std::int64_t max_rows) {
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(max_rows, 4));
  for (const std::size_t tokens : {std::size_t{8}, std::size_t{16}, std::size_t{32}, encoder.model().max_tokens}) {
    if (tokens == 0 || (encoder.model().max_tokens != 0 && tokens > encoder.model().max_tokens)) continue;
    std::vector<NamedValues> items;
    for (PreparedText& text : texts_of(encoder, tokens, count)) items.push_back(std::move(text.inputs));
    if (items.size() > 1) return items;
  }
  return {};
}

// Whether texts of one length that share a run have the numbers of each alone, but for their last digits.
bool try_throughput(const Runtime& runtime, const std::vector<NamedValues>& items) {
  if (items.empty()) return false;
  const double rounding = rounding_of(runtime.verdict().precision);
  const std::vector<NamedValues> together = infer_in_one_run(runtime, items, {}, nullptr);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const NamedValues alone = runtime.infer(items[i]);
    for (std::size_t k = 0; k < alone.size(); ++k) {
      if (!are_near(alone[k].second, together[i].at(k).second, rounding)) return false;
    }
  }
  return true;
}

// The numbers that are put in, so that a result is that of no other texts, tokenizer or settings.
std::string question_of(std::string_view rule, std::span<const NamedValues> items) {
  Sha256 sum;
  for (const NamedValues& item : items) {
    for (const auto& [name, value] : item) {
      const Tensor* tensor = value.tensor();
      if (tensor == nullptr) continue;
      const std::string header =
          fmt::format("{} {} [{}]\n", name, to_string(tensor->type()), fmt::join(tensor->shape(), ","));
      sum.update(std::as_bytes(std::span(header)));
      sum.update(tensor->bytes());
    }
  }
  return fmt::format("{} {}", rule, sum.hex());
}

// A model that fails together with others is run alone, and tells then what is wrong.
template <typename Try>
bool holds(runtime::TrialMemory& memory, const std::string& question, const Try& attempt) {
  try {
    return memory.holds(question, attempt);
  } catch (const Error& error) {
    log::info("texts that share a run: {}", error.message());
    return false;
  }
}

// For a provider that does not compute what the mask leaves out. Null where there is no mask, or lengths are not free.
std::shared_ptr<const runtime::Padding> free_padding(const SentenceEncoder& encoder, const Signature& signature) {
  std::vector<std::pair<std::string, std::string>> setting;
  for (const SignatureEntry& input : signature.inputs) {
    if (input.name == "adapter_id") continue;  // has one number per text
    setting.emplace_back(input.name, input.name == "input_ids" ? std::to_string(encoder.model().padding_token) : "0");
  }
  const bool has_mask = std::ranges::any_of(setting, [](const auto& input) { return input.first == "attention_mask"; });
  if (!has_mask) return nullptr;
  try {
    auto padding = std::make_shared<runtime::Padding>(runtime::read_padding(setting, signature, "padding"));
    padding->is_computed = false;
    return padding;
  } catch (const Error& error) {
    log::info("texts of different lengths share no run: {}", error.message());
    return nullptr;
  }
}

}  // namespace

void bound_rows(const Verdict& verdict, TextSharing& found) {
  const provider::ActiveProfile profile = provider::active_profile(verdict);
  if (const std::int64_t most = provider::max_rows_of(profile.ranges); most != 0 && most < found.limits.max_rows) {
    found.limits.max_rows = most;
    found.sharing.reason += fmt::format("; {} is compiled for no more", profile.provider);
  }
  const std::string compiling = provider::compiles_each_size(verdict);
  found.limits.fills_rows = !compiling.empty() && found.limits.max_rows > 1;
  if (found.limits.fills_rows) {
    found.sharing.reason +=
        fmt::format("; runs are filled up to 2, 4, 8, … texts, as {} compiles for each number", compiling);
  }
}

std::vector<NamedValues> infer_together(const Runtime& runtime, std::span<const NamedValues> items,
                                        const InferOptions& options, const runtime::Padding* padding,
                                        std::int64_t filled_rows) {
  if (padding == nullptr) return runtime::infer_in_groups(runtime, items, options, items.size(), filled_rows);
  return infer_in_one_run(runtime, items, options, padding, filled_rows);
}

TextSharing find_text_batching(const SentenceEncoder& encoder, const Runtime& runtime) {
  const std::vector<std::string>& active = runtime.verdict().active;
  const provider::ProviderRow* only = active.size() == 1 ? provider::find_row(active.front()) : nullptr;
  const bool packs = only != nullptr && only->computes_no_padding;
  const bool on_cpu = only != nullptr && only->works_on_callers_threads;
  // Past about so many tokens a processor is as busy as it gets, and the others wait.
  const runtime::BatchLimits of_processor{.max_rows = 16, .max_cost = 256};
  const bool throughput = encoder.batching() == TextBatching::throughput;
  TextSharing found{.limits = {.max_rows = 1}, .padding = nullptr};
  runtime::TrialMemory memory(runtime);
  TriedTexts texts;  // made where a trial needs them
  found.sharing = runtime.run_sharing({.requests = 1, .sizes = {}});
  if (!found.sharing.shared && found.sharing.source == Source::setting) return found;
  if (!runtime::signature_permits_sharing(runtime.info().signature)) {
    found.sharing = {false, Source::signature, "inputs and outputs do not have one free first dimension"};
  } else if (throughput) {
    found.limits = on_cpu ? of_processor : batches_on_devices;
    found.sharing = {true, Source::setting,
                     encoder.has_default_batching()
                         ? "batching is throughput, the default on a GPU or NPU; exact gives each text's own bits"
                         : "batching is throughput"};
    if (!encoder.filling_problem().empty()) {
      found.sharing.reason += "; only texts of one length share runs: " + encoder.filling_problem();
    }
    bound_rows(runtime.verdict(), found);
    if (found.limits.max_rows > 1) {
      const std::vector<NamedValues> some = texts_of_throughput(encoder, found.limits.max_rows);
      if (!holds(memory, question_of("near", some), [&] { return try_throughput(runtime, some); })) {
        found.limits = {.max_rows = 1};
        found.sharing = {false, Source::trial, "vectors together are not near those of each text alone"};
      }
    }
  } else if (!on_cpu) {
    // Other devices choose their kernels by size, so that a few runs would prove nothing.
    found.sharing = {false, Source::not_proven, "equal bits cannot be proven on this provider"};
  } else {
    texts = texts_of_trials(encoder);
    const auto attempt = [&] { return try_one_length(runtime, texts); };
    if (holds(memory, question_of("equal in one length", in_one_list(texts)), attempt)) {
      found.limits = of_processor;
      found.sharing = {true, Source::trial, "vectors were bit-identical together and alone"};
    } else {
      found.sharing = {false, Source::trial, "vectors were not bit-identical together and alone"};
    }
  }
  if (packs && found.limits.max_rows > 1) {
    auto padding = free_padding(encoder, runtime.info().signature);
    if (padding != nullptr && texts.empty()) texts = texts_of_trials(encoder);
    const auto attempt = [&] { return try_all_lengths(runtime, texts, *padding); };
    if (padding != nullptr && holds(memory, question_of("equal in all lengths", in_one_list(texts)), attempt)) {
      found.padding = std::move(padding);
      found.limits.counts_padding = false;
    }
  }
  log::info("{}", found.limits.max_rows == 1
                      ? "texts run one by one: their vectors are not known to be bit-identical in shared runs"
                  : found.padding != nullptr ? "texts of all lengths share runs"
                                             : "texts of one length share runs");
  return found;
}

}  // namespace gpux::embedding
