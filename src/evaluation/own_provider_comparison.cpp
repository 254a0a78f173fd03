#include "evaluation/own_provider_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "checkpoint/sentence_model.h"
#include "embedding/open_tokenizer.h"
#include "embedding/recorded_texts.h"
#include "evaluation/precision_gate.h"
#include "evaluation/variant_samples.h"
#include "generation/decoder_run.h"
#include "generation/decoder_signature.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "pipeline/text_settings.h"
#include "provider/own_provider.h"
#include "runtime/loading/precision_variant.h"
#include "text/tokenizer.h"

namespace gpux::evaluation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view tokenizer_name = "tokenizer.json";

// Empty: none of gpux's own is for such a model.
std::string provider_for(const fs::path& onnx_file, const ModelInfo& info) {
  std::error_code unreadable;
  if (!fs::is_regular_file(onnx_file.parent_path() / tokenizer_name, unreadable)) return {};
  try {
    if (generation::decoder_signature(info)) return "decoder";
    const bool reads_texts = checkpoint::sentence_model_of(onnx_file).has_value() ||
                             pipeline::read_text_settings(onnx_file, nullptr, info.signature).has_value();
    if (reads_texts) return "encoder";
  } catch (const Error& error) {
    log::debug("{} is compared with no provider: {}", onnx_file.string(), error.message());
  }
  return {};
}

NamedValues empty_caches(const generation::DecoderSignature& signature) {
  const generation::CacheLayout& cache = signature.cache;
  const Value none(Tensor::allocate(cache.type, {1, cache.heads, 0, cache.head_size}));
  NamedValues values;
  for (const auto& layer : signature.layers) {
    values.emplace_back(layer.past_key, none);
    values.emplace_back(layer.past_value, none);
  }
  return values;
}

// Logits of some texts, and of one more token behind the keys and values of each.
Ask decoder_logits(const fs::path& onnx_file) {
  constexpr std::size_t max_texts = 8, max_tokens = 48;
  const text::Tokenizer tokenizer = embedding::open_tokenizer(onnx_file.parent_path() / tokenizer_name);
  std::vector<std::vector<std::uint32_t>> prompts;
  for (const std::string_view text : embedding::recorded_texts()) {
    std::vector<std::uint32_t> tokens = generation::prompt_tokens(tokenizer, text);
    tokens.resize(std::min(tokens.size(), max_tokens));
    if (tokens.size() > 1 && prompts.size() < max_texts) prompts.push_back(std::move(tokens));
  }
  return [prompts = std::move(prompts)](const Runtime& runtime) {
    const generation::DecoderSignature signature = generation::require_decoder(runtime.info());
    Answers answers;
    for (const std::vector<std::uint32_t>& prompt : prompts) {
      const std::span<const std::uint32_t> tokens(prompt);
      const std::size_t last = tokens.size() - 1;
      generation::DecoderRow row{0, tokens.first(last)};
      NamedValues inputs = generation::token_inputs({&row, 1}, signature);
      std::ranges::move(empty_caches(signature), std::back_inserter(inputs));
      NamedValues got = runtime.infer(inputs);
      answers.push_back({{"prompt", generation::last_logits(*find(got, signature.names.logits)->tensor())}});
      row = {last, tokens.subspan(last)};
      inputs = generation::token_inputs({&row, 1}, signature);
      for (const auto& layer : signature.layers) {
        inputs.emplace_back(layer.past_key, *find(got, layer.present_key));
        inputs.emplace_back(layer.past_value, *find(got, layer.present_value));
      }
      got = runtime.infer(inputs, {.timeout = {}, .outputs = {signature.names.logits}});
      answers.back().emplace_back("token", generation::last_logits(*find(got, signature.names.logits)->tensor()));
    }
    return answers;
  };
}

// What the provider makes of the samples, or why it is not compared. Empty: it is not on this machine.
struct OwnAnswers {
  Answers answers;
  std::string difference;
};

std::optional<OwnAnswers> answers_of(const std::string& provider, const fs::path& onnx_file, const Ask& ask,
                                     LoadOptions options) {
  options.provider = provider;
  options.strict = Strictness::off;
  try {
    const Runtime runtime(onnx_file, options);
    const Verdict& verdict = runtime.verdict();
    const auto attempt = std::ranges::find(verdict.tried, provider, &ProviderAttempt::id);
    if (attempt == verdict.tried.end() || attempt->outcome == ProviderAttempt::Outcome::unavailable)
      return std::nullopt;
    if (std::string part = provider::missing_part(verdict, provider); !part.empty()) {
      return OwnAnswers{{}, std::move(part)};
    }
    const std::string models_own = runtime::precision_of(runtime.info());
    if (verdict.precision != models_own) {
      return OwnAnswers{{}, fmt::format("it computes in {}, and the model is in {}", verdict.precision, models_own)};
    }
    return OwnAnswers{ask(runtime), {}};
  } catch (const Error& error) {
    return OwnAnswers{{}, error.message()};
  }
}

}  // namespace

std::optional<ComparedProvider> compare_own_provider(const fs::path& onnx_file, const ModelInfo& info,
                                                     const LoadOptions& given) {
  if (lower(given.provider) != "auto") return std::nullopt;
  ComparedProvider compared{.provider = provider_for(onnx_file, info)};
  if (compared.provider.empty() || !has_avx2(Machine::this_one())) return std::nullopt;
  LoadOptions options = given;
  options.precision.clear();
  options.precision_variants.clear();
  options.optimized_graphs.clear();
  options.optimized_model.clear();
  options.profile.clear();
  options.provider_options.clear();
  options.compared_provider.reset();
  const Ask samples = compared.provider == "decoder" ? decoder_logits(onnx_file) : [&](const Runtime& runtime) {
    return samples_at_hand(onnx_file, runtime).ask(runtime);
  };
  const std::optional<OwnAnswers> own = answers_of(compared.provider, onnx_file, samples, options);
  if (!own) return std::nullopt;
  compared.difference = own->difference;
  if (!compared.difference.empty()) return compared;
  const Agreement found = agreement(answers_on_cpu(onnx_file, samples, options), own->answers);
  // Cut, not rounded: what falls short is not to look as if it did not. So short, it is the same on most machines, and
  // with it the package's digest.
  constexpr double digits = 1e5;
  compared.agreement = std::floor(found.least * digits) / digits;
  compared.samples = static_cast<unsigned>(found.cosines.size());
  return compared;
}

}  // namespace gpux::evaluation
