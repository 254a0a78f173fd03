#include "server/models/model_description.h"

#include <algorithm>

namespace gpux::server {
namespace {

EncoderDescription describe_encoder(const embedding::SentenceEncoder& encoder) {
  const checkpoint::SentenceModel& sentences = encoder.model();
  EncoderDescription described;
  for (const gpux::Pooling one : sentences.poolings) {
    if (!described.pooling.empty()) described.pooling += '+';
    described.pooling += checkpoint::name_of(one);
  }
  if (sentences.splade) described.pooling = "splade";
  if (sentences.late_interaction) described.pooling = "none";
  described.dimension = encoder.dimension();
  described.max_tokens = sentences.max_tokens;
  for (const auto& [name, text] : sentences.prompts) described.prompts.push_back(name);
  return described;
}

}  // namespace

bool ModelDescription::is_able(TextAbility ability) const noexcept {
  return std::ranges::find(abilities, ability) != abilities.end();
}

std::shared_ptr<ModelDescription> describe(const ServedModel& model) {
  auto described = std::make_shared<ModelDescription>();
  described->name = model.name();
  described->version = model.version();
  described->signature = model.signature();
  described->info = model.runtime().info();
  described->verdict = model.verdict();
  described->options = model.options();
  described->can_batch = model.can_batch();
  if (model.encoder()) described->encoder = describe_encoder(*model.encoder());
  for (const TextAbility ability :
       {TextAbility::embed, TextAbility::embed_sparse, TextAbility::embed_tokens, TextAbility::classify,
        TextAbility::find_entities, TextAbility::answer_questions, TextAbility::rank, TextAbility::tokenize,
        TextAbility::embed_images, TextAbility::generate, TextAbility::chat, TextAbility::any}) {
    if (is_able(model, ability)) described->abilities.push_back(ability);
  }
  if (model.engine() != nullptr) described->context_length = model.engine()->context_length();
  described->family = model.family();
  described->digest = model.digest();
  described->statistics = model.shared_statistics();
  return described;
}

std::optional<std::uint64_t> max_batch_tokens(const ServingOptions& options, bool can_batch,
                                              std::size_t max_tokens) noexcept {
  const std::optional<std::uint64_t> one_text =
      max_tokens == 0 ? std::nullopt : std::optional<std::uint64_t>(max_tokens);
  if (!can_batch || options.max_batch_size <= 1) return one_text;
  const std::optional<std::uint64_t> by_rows =
      one_text ? std::optional(*one_text * static_cast<std::uint64_t>(options.max_batch_size)) : std::nullopt;
  if (options.max_batch_cost <= 0) return by_rows;
  // A text that is longer than the bound runs alone.
  const auto by_cost = std::max(static_cast<std::uint64_t>(options.max_batch_cost), one_text.value_or(0));
  return by_rows ? std::min(by_cost, *by_rows) : by_cost;
}

}  // namespace gpux::server
