#include "model/open_generator.h"

#include <utility>

#include "embedding/open_tokenizer.h"
#include "generation/decoder_signature.h"
#include "isolation/load_facts.h"

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

std::unique_ptr<generation::Engine> OpenGenerator::load(const GeneratorOptions& options) const {
  const auto begin = [&](LoadPhase phase) {
    if (options.on_load) options.on_load(phase);
  };
  // The caller keeps the keys and values.
  OpenModel decoder = model;
  decoder.settings.options.cache_precision = options.cache_precision;
  const generation::CacheLayout cache = generation::require_decoder(model.info).cache;
  change_facts(decoder.settings.options, [&](LoadFacts& facts) {
    facts.cache_address_bytes = generation::cache_address_bytes(cache, files.context_length, options);
  });
  begin(LoadPhase::session);
  Runtime runtime = decoder.load();
  begin(LoadPhase::first_run);
  auto engine = std::make_unique<generation::Engine>(std::move(runtime), tokenizer, files, options);
  begin(LoadPhase::ready);
  return engine;
}

}  // namespace gpux
