#include "model/open_generator.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "embedding/open_tokenizer.h"
#include "generation/decoder_signature.h"
#include "generation/draft_vocabulary.h"
#include "isolation/load_facts.h"
#include "model/cache_agreement.h"
#include "onnx/model_files.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux {

OpenGenerator open_generator(OpenModel model) {
  require_one_model(model.located, "what generates text");
  (void)generation::require_decoder(model.info);
  generation::ModelFiles files = generation::read_model_files(model.located.onnx_file.parent_path());
  if (model.located.stored) files.digest = model.located.stored->digest;
  text::Tokenizer tokenizer = embedding::open_tokenizer(files.tokenizer);
  return {.model = std::move(model), .files = std::move(files), .tokenizer = std::move(tokenizer)};
}

generation::ModelChat OpenGenerator::read_chat() const {
  return generation::ModelChat(model.located.onnx_file.parent_path());
}

OpenGenerator open_generator(OpenModel model, const std::string& draft, const LoadRequest& request) {
  OpenGenerator open = open_generator(std::move(model));
  if (draft.empty()) return open;
  try {
    open.draft = std::make_shared<const OpenGenerator>(open_generator(open_model(draft, {}, request)));
  } catch (const Error& error) {
    throw error.within(to_string(setting_named("draft")));
  }
  generation::require_same_tokens(open.tokenizer, open.draft->tokenizer, draft);
  return open;
}

namespace {

// The caller keeps the keys and values.
Runtime load_decoder(const OpenGenerator& open, LoadOptions with, const GeneratorOptions& options) {
  OpenModel decoder = open.model;
  decoder.settings.options = std::move(with);
  decoder.settings.options.cache_precision = options.cache_precision;
  const generation::CacheLayout cache = generation::require_decoder(decoder.info).cache;
  change_facts(decoder.settings.options, [&](LoadFacts& facts) {
    facts.cache_address_bytes = generation::cache_address_bytes(cache, open.files.context_length, options);
  });
  return decoder.load();
}

Runtime load_with(const OpenGenerator& open, GeneratorOptions options, CachePrecision precision) {
  options.cache_precision = precision;
  return load_decoder(open, open.model.settings.options, options);
}

std::filesystem::path kept_agreement_of(const OpenGenerator& open, const Runtime& runtime) {
  std::vector<std::filesystem::path> files = onnx::files_of(open.model.located.onnx_file, open.model.info);
  files.push_back(open.files.tokenizer);
  return kept_agreement_file(
      files, open.files.digest,
      fmt::format("{}\n{}", runtime::SessionReplica(runtime).computed_by(), open.files.context_length));
}

generation::QuantizationAgreement measured_agreement(const OpenGenerator& open, const GeneratorOptions& options,
                                                     Runtime in_int8) {
  log::info("keys and values in int8 are compared with those of the model's file, once for these files");
  // By the same provider: the difference is that of the keys and values.
  OpenGenerator as_written = open;
  as_written.model.settings.options.provider = in_int8.verdict().active.front();
  return measure_cache_agreement(
      std::move(in_int8), [&] { return load_with(as_written, options, CachePrecision::as_written); }, open.tokenizer,
      open.files.context_length);
}

// One session at a time in memory.
Runtime load_main(const OpenGenerator& open, const GeneratorOptions& options) {
  Runtime runtime = load_with(open, options, options.cache_precision);
  const auto signature = generation::decoder_signature(runtime.info());
  // Where they are not stored so, the verdict says why.
  if (options.cache_precision != CachePrecision::int8 || !signature || signature->cache.type != ElementType::int8) {
    return runtime;
  }
  const std::filesystem::path kept = kept_agreement_of(open, runtime);
  if (const auto known = read_kept_agreement(kept)) {
    require_cache_agreement(*known);
    return runtime;
  }
  const generation::QuantizationAgreement measured = measured_agreement(open, options, std::move(runtime));
  keep_agreement(kept, measured);
  require_cache_agreement(measured);
  return load_with(open, options, CachePrecision::int8);
}

LoadOptions options_of_draft(const OpenGenerator& draft, const LoadOptions& model) {
  LoadOptions options = draft.model.settings.options;
  if (model.intra_threads) options.intra_threads = model.intra_threads;
  if (model.device) options.device = model.device;
  // Threads that wait actively would take processors from the model, whose turn is next.
  options.session_config.emplace_back("session.intra_op.allow_spinning", "0");
  return options;
}

}  // namespace

std::optional<generation::QuantizationAgreement> kept_cache_agreement(const OpenGenerator& open,
                                                                      const Runtime& runtime) {
  return read_kept_agreement(kept_agreement_of(open, runtime));
}

std::unique_ptr<generation::Engine> OpenGenerator::load(const GeneratorOptions& options) const {
  const auto begin = [&](LoadPhase phase) {
    if (options.on_load) options.on_load(phase);
  };
  begin(LoadPhase::session);
  Runtime runtime = load_main(*this, options);
  std::unique_ptr<generation::DraftSource> source;
  if (draft) {
    source = std::make_unique<generation::DraftSource>(generation::DraftSource{
        .name = draft->model.located.name,
        .runtime = load_decoder(*draft, options_of_draft(*draft, model.settings.options), options),
        .tokenizer = draft->tokenizer,
        .context_length = draft->files.context_length});
  }
  begin(LoadPhase::first_run);
  auto engine = std::make_unique<generation::Engine>(std::move(runtime), tokenizer, files, options,
                                                     generation::CacheBudget::of_process(), std::move(source));
  begin(LoadPhase::ready);
  return engine;
}

}  // namespace gpux
