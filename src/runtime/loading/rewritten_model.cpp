#include "runtime/loading/rewritten_model.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/spelling.h"
#include "onnx/fused_attention.h"
#include "onnx/pooled_output.h"
#include "onnx/small_weights.h"
#include "provider/table.h"
#include "runtime/loading/cache_trial.h"
#include "runtime/loading/precision_variant.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;

// Whether what the model gives is copied from a device.
bool copies_results(const Plan& plan) {
  if (plan.candidates.empty()) return false;
  const Candidate& first = plan.candidates.front();
  if (first.append.way == ort::ProviderAppend::Way::by_device) return ort::has_own_memory(first.append);
  for (const ProviderAttempt& attempt : plan.verdict.tried) {
    if (attempt.id != first.id || (!attempt.device && attempt.devices.empty())) continue;
    return (attempt.device ? *attempt.device : attempt.devices.front()).kind != "cpu";
  }
  return false;
}

// Null: none.
const PooledOutput* wanted_pooling(const LoadOptions& options, const Plan& plan) {
  if (!options.pooled_output || !options.after.empty() || !copies_results(plan)) return nullptr;
  return &*options.pooled_output;
}

bool wants_fusion(const LoadOptions& options, const Plan& plan) {
  if (options.optimization == Optimization::disabled || options.optimization == Optimization::basic) return false;
  if (plan.candidates.empty()) return false;
  const provider::ProviderRow* row = provider::find_row(plan.candidates.front().id);
  return row != nullptr && row->has_fused_attention;
}

// Null: the first provider has no use for them beside float32.
const provider::ProviderRow* reader_of_caches(const Plan& plan) {
  const auto* row = plan.candidates.empty() ? nullptr : provider::find_row(plan.candidates.front().id);
  return row != nullptr && row->reads_half_caches ? row : nullptr;
}

bool has_cached_attention(const ModelInfo& info) {
  return info.operators.contains("com.microsoft::GroupQueryAttention");
}

bool asks_for_stored_caches(const LoadOptions& options) {
  return options.cache_precision == CachePrecision::float16 || options.cache_precision == CachePrecision::int8;
}

bool wants_stored_caches(const LoadOptions& options, const ModelInfo& info, const Plan& plan) {
  if (!has_cached_attention(info)) return false;
  switch (options.cache_precision) {
    case CachePrecision::as_written:
      return false;
    case CachePrecision::automatic:
      // Beside the rounding of weights and activations in blocks, that of keys and values is small.
      if (reader_of_caches(plan) != nullptr) return info.operators.contains("com.microsoft::MatMulNBits");
      return !plan.candidates.empty();
    case CachePrecision::float16:
    case CachePrecision::int8:
      return true;
  }
  return false;
}

bool wants_small_weights(const ModelInfo& info, const Plan& plan) {
  return reader_of_caches(plan) != nullptr && has_cached_attention(info) && info.operators.contains("Cast");
}

std::string_view name_of(ElementType element) {
  return element == ElementType::int8 ? "int8" : "float16";
}

std::string list_of(const std::map<std::string, std::size_t>& operators) {
  std::vector<std::string> counts;
  for (const auto& [name, count] : operators) counts.push_back(fmt::format("{} {}", count, name));
  return join(counts);
}

}  // namespace

std::optional<std::string> RewrittenModel::fused(std::string_view content, bool is_float16,
                                                 const ort::SessionSettings& settings) {
  const auto parts = [&] { return onnx::FusedParts{defects_.attention.empty(), defects_.norms.empty()}; };
  try {
    std::optional<onnx::FusedModel> model = onnx::with_fused_attention(content, parts());
    if (!model) return std::nullopt;
    const FusionDefects met = try_fusion(*model, is_float16, settings);
    if (!met.attention.empty() && !model->attentions.empty()) defects_.attention = met.attention;
    if (!met.norms.empty() && !model->norms.empty()) defects_.norms = met.norms;
    if (!met.attention.empty() || !met.norms.empty()) model = onnx::with_fused_attention(content, parts());
    if (!model) return std::nullopt;
    fused_ = std::move(model->operators);
    return std::move(model->content);
  } catch (const std::exception& error) {
    defects_ = {error.what(), error.what()};
    return std::nullopt;
  }
}

std::optional<std::string> RewrittenModel::with_stored_caches(std::string_view content, const Plan& plan,
                                                              const ort::SessionSettings& settings) {
  const bool is_automatic = options_.cache_precision == CachePrecision::automatic;
  const bool is_int8 = options_.cache_precision == CachePrecision::int8;
  const bool has_reader = reader_of_caches(plan) != nullptr, is_for_reader = has_reader && !has_idle_caches_;
  if (is_automatic && has_reader && has_idle_caches_) return std::nullopt;
  if (is_int8 && !is_for_reader) {
    cache_obstacle_ =
        has_reader ? "the decoder provider does not run the model" : "only the decoder provider reads them";
    return std::nullopt;
  }
  try {
    const onnx::CacheUse stored = is_int8 ? onnx::CacheUse::int8_stored : onnx::CacheUse::float16_stored;
    std::optional<onnx::ChangedCaches> changed =
        onnx::with_stored_caches(content, is_for_reader ? stored : onnx::CacheUse::float16_computed);
    if (!changed) {
      if (!is_automatic) {
        cache_failure_ = fmt::format(
            "they are not float32 inputs and outputs for GroupQueryAttention alone{}",
            is_int8 ? ", of heads of one size in blocks of 16, in a model of IR version 8 and operator set 13 or later"
                    : "");
      }
      return std::nullopt;
    }
    if (is_automatic && !is_for_reader) {
      const CacheTrial trial = try_cached_attention(changed->forms, settings);
      if (!trial.defect.empty()) cache_failure_ = trial.defect;
      if (!trial.needs_float16 || cache_failure_) return std::nullopt;
    }
    stored_caches_ = std::move(changed->stored);
    is_for_reader_ = is_for_reader;
    return std::move(changed->content);
  } catch (const std::exception& error) {
    cache_failure_ = error.what();
    return std::nullopt;
  }
}

std::optional<std::string> RewrittenModel::with_small_weights(std::string_view content) {
  try {
    std::optional<std::string> model = onnx::with_widening_functions(content);
    has_small_weights_ = model.has_value();
    return model;
  } catch (const std::exception&) {  // what is wrong with the file, the load says
    has_small_weights_failed_ = true;
    return std::nullopt;
  }
}

std::optional<std::string> RewrittenModel::pooled(std::string_view content, const PooledOutput& wanted) {
  try {
    std::string model = onnx::with_pooled_output(content, signature_, wanted);
    is_pooled_ = true;
    return model;
  } catch (const std::exception& error) {
    pooling_failure_ = error.what();
    return std::nullopt;
  }
}

std::optional<std::string> RewrittenModel::of(const fs::path& file, const ModelInfo& info, const Plan& plan,
                                              const ort::SessionSettings& settings, bool is_optimized) {
  fused_.clear();
  stored_caches_ = {};
  cache_obstacle_.reset();
  has_small_weights_ = false;
  is_pooled_ = false;
  if (is_optimized || !options_.optimized_model.empty()) {
    if (asks_for_stored_caches(options_)) {
      cache_failure_ = is_optimized ? "the graph was optimized before" : "the graph is kept for later loads";
    }
    return std::nullopt;
  }
  const bool fuses = wants_fusion(options_, plan) && (defects_.attention.empty() || defects_.norms.empty());
  const PooledOutput* const pooling = pooling_failure_ ? nullptr : wanted_pooling(options_, plan);
  const bool stores_caches = !cache_failure_ && wants_stored_caches(options_, info, plan);
  if (asks_for_stored_caches(options_) && !has_cached_attention(info))
    cache_obstacle_ = "it has no GroupQueryAttention";
  const bool keeps_small_weights = !has_small_weights_failed_ && wants_small_weights(info, plan);
  if (!fuses && !stores_caches && !keeps_small_weights && pooling == nullptr) return std::nullopt;
  const MappedFile content(file);
  std::optional<std::string> model;
  const auto change = [&](std::optional<std::string> changed) {
    if (changed) model = std::move(changed);
  };
  const auto last = [&] { return model ? std::string_view(*model) : content.text(); };
  if (fuses) change(fused(last(), precision_of(info) == "fp16", settings));
  if (stores_caches) change(with_stored_caches(last(), plan, settings));
  if (keeps_small_weights) change(with_small_weights(last()));
  if (pooling != nullptr) change(pooled(last(), *pooling));
  return model;
}

bool RewrittenModel::give_up_idle_caches(const ort::Session& session, const Plan& plan) {
  if (!is_for_reader_ || stored_caches_.empty()) return false;
  const provider::ProviderRow* const reader = reader_of_caches(plan);
  has_idle_caches_ = std::ranges::none_of(session.assignment(), [reader](const ort::AssignedNode& node) {
    return provider::find_row(node.provider) == reader;
  });
  return has_idle_caches_;
}

bool RewrittenModel::give_up(const std::string& reason) {
  if (has_small_weights_) {  // first: nobody has asked for them
    has_small_weights_failed_ = true;
  } else if (!fused_.empty()) {
    defects_ = {reason, reason};
  } else if (!stored_caches_.empty()) {
    cache_failure_ = reason;
  } else if (is_pooled_) {
    pooling_failure_ = reason;
  } else {
    return false;
  }
  return true;
}

void RewrittenModel::tell(const Plan& plan, Verdict& verdict) const {
  if (!fused_.empty()) verdict.notes.emplace_back("nodes are fused: " + list_of(fused_));
  if (wants_fusion(options_, plan)) {
    if (!defects_.attention.empty()) verdict.notes.emplace_back("attention is not fused: " + defects_.attention);
    if (!defects_.norms.empty()) verdict.notes.emplace_back("norms are not fused: " + defects_.norms);
  }
  if (!stored_caches_.empty()) {
    const bool is_automatic = options_.cache_precision == CachePrecision::automatic;
    verdict.notes.emplace_back(
        fmt::format("keys and values are stored in {}{}", name_of(stored_caches_.element),
                    is_automatic && !is_for_reader_ ? ": the provider has their attention in float16 alone" : ""));
  } else if (const std::optional<std::string>& reason = cache_failure_ ? cache_failure_ : cache_obstacle_) {
    const bool is_int8 = options_.cache_precision == CachePrecision::int8;
    verdict.notes.emplace_back(
        fmt::format("keys and values are not stored in {}: {}", is_int8 ? "int8" : "float16", *reason));
  }
  if (is_pooled_) {
    verdict.notes.emplace_back("texts are pooled in the graph: the model gives one vector per text");
  } else if (pooling_failure_ && wanted_pooling(options_, plan) != nullptr) {
    verdict.notes.emplace_back("texts are pooled on the host, from a vector per token: " + *pooling_failure_);
  }
}

std::string RewrittenModel::identity() const {
  std::vector<std::string> changes;
  if (!fused_.empty()) changes.push_back("fused " + list_of(fused_));
  if (!stored_caches_.empty()) {
    changes.push_back(fmt::format("keys and values in {}", name_of(stored_caches_.element)));
  }
  if (has_small_weights_) changes.emplace_back("weights in 16 bits");
  if (is_pooled_) changes.emplace_back("pooled in the graph");
  return join(changes, "; ");
}

ort::Session session_of_content(const std::string& content, const fs::path& file,
                                const ort::SessionSettings& settings) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return ort::Session::from_memory(std::as_bytes(std::span(content)), folder, settings);
}

}  // namespace gpux::runtime
