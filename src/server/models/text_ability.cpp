#include "server/models/text_ability.h"

namespace gpux::server {
namespace {

bool has_task(const ServedModel& model, pipeline::Task task) {
  return model.pipeline() && model.pipeline()->settings().task == task;
}

using embedding::Representation;

bool represents(const ServedModel& model, Representation representation) {
  return model.encoder() && model.encoder()->represents(representation);
}

}  // namespace

const checkpoint::LateInteraction* late_interaction_of(const ServedModel& model) noexcept {
  if (!represents(model, Representation::multi_vector)) return nullptr;
  const auto& late = model.encoder()->model().late_interaction;
  return late ? &*late : nullptr;
}

bool is_able(const ServedModel& model, TextAbility ability) {
  switch (ability) {
    case TextAbility::embed:
      return represents(model, Representation::dense);
    case TextAbility::embed_sparse:
      return represents(model, Representation::sparse);
    case TextAbility::embed_tokens:
      return model.encoder() &&
             (!model.encoder()->token_output().empty() || represents(model, Representation::multi_vector));
    case TextAbility::classify:
      return has_task(model, pipeline::Task::text_classification) && !model.pipeline()->settings().labels.empty();
    case TextAbility::find_entities:
      return has_task(model, pipeline::Task::token_classification);
    case TextAbility::answer_questions:
      return has_task(model, pipeline::Task::question_answering);
    case TextAbility::rank:
      return has_task(model, pipeline::Task::text_ranking) || late_interaction_of(model) != nullptr;
    case TextAbility::tokenize:
      return tokenizer_of(model) != nullptr;
    case TextAbility::embed_images:
      return model.image_encoder() != nullptr;
    case TextAbility::generate:
      return model.engine() != nullptr;
    case TextAbility::embed_any:
      return is_able(model, TextAbility::embed) || is_able(model, TextAbility::embed_images);
    case TextAbility::chat:
      return model.chat() != nullptr;
    case TextAbility::any:
      return is_able(model, TextAbility::embed) || is_able(model, TextAbility::embed_sparse) ||
             is_able(model, TextAbility::classify) || is_able(model, TextAbility::find_entities) ||
             is_able(model, TextAbility::answer_questions) || is_able(model, TextAbility::rank);
  }
  return false;
}

std::string_view lack_of(TextAbility ability) noexcept {
  switch (ability) {
    case TextAbility::embed:
      return "makes no dense vectors of texts";
    case TextAbility::embed_sparse:
      return "makes no sparse vectors of texts";
    case TextAbility::embed_tokens:
      return "gives no vectors of tokens";
    case TextAbility::classify:
      return "is no classifier of texts with labels";
    case TextAbility::find_entities:
      return "finds no entities";
    case TextAbility::answer_questions:
      return "answers no questions";
    case TextAbility::rank:
      return "ranks no texts";
    case TextAbility::tokenize:
      return "has no tokenizer";
    case TextAbility::embed_images:
      return "makes no vectors of images";
    case TextAbility::generate:
      return "generates no text";
    case TextAbility::embed_any:
      return "makes no dense vectors";
    case TextAbility::chat:
      return "takes no messages";
    case TextAbility::any:
      return "does nothing with texts";
  }
  return {};
}

const text::Tokenizer* tokenizer_of(const ServedModel& model) noexcept {
  if (model.encoder()) return &model.encoder()->tokenizer();
  if (model.engine()) return &model.engine()->tokenizer();
  return model.pipeline() ? &model.pipeline()->tokenizer() : nullptr;
}

}  // namespace gpux::server
