#include "server/text_ability.h"

namespace gpux::server {
namespace {

bool has_task(const ServedModel& model, pipeline::Task task) {
  return model.pipeline() && model.pipeline()->settings().task == task;
}

}  // namespace

bool is_able(const ServedModel& model, TextAbility ability) {
  switch (ability) {
    case TextAbility::embed:
      return model.encoder() != nullptr;
    case TextAbility::embed_tokens:
      return model.encoder() && !model.encoder()->token_output().empty();
    case TextAbility::classify:
      return has_task(model, pipeline::Task::text_classification) && !model.pipeline()->settings().labels.empty();
    case TextAbility::rank:
      return has_task(model, pipeline::Task::text_ranking);
    case TextAbility::tokenize:
      return tokenizer_of(model) != nullptr;
    case TextAbility::any:
      return is_able(model, TextAbility::embed) || is_able(model, TextAbility::classify) ||
             is_able(model, TextAbility::rank);
  }
  return false;
}

std::string_view lack_of(TextAbility ability) noexcept {
  switch (ability) {
    case TextAbility::embed:
      return "makes no vectors of texts";
    case TextAbility::embed_tokens:
      return "gives no vectors of tokens";
    case TextAbility::classify:
      return "is no classifier of texts with labels";
    case TextAbility::rank:
      return "ranks no texts";
    case TextAbility::tokenize:
      return "has no tokenizer";
    case TextAbility::any:
      return "does nothing with texts";
  }
  return {};
}

const text::Tokenizer* tokenizer_of(const ServedModel& model) noexcept {
  if (model.encoder()) return &model.encoder()->tokenizer();
  return model.pipeline() ? &model.pipeline()->tokenizer() : nullptr;
}

}  // namespace gpux::server
