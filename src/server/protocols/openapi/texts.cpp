#include "server/protocols/openapi/texts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/protocols/text_inputs.h"
#include "text/tokenizer.h"

namespace gpux::server::openapi {
namespace {

// The largest vector that all of the models have.
std::size_t dimensions_of(const std::vector<const ServedModel*>& models) {
  std::size_t least = SIZE_MAX;
  for (const ServedModel* model : models) {
    if (model->encoder()) least = std::min(least, model->encoder()->dimension());
    if (model->image_encoder()) least = std::min(least, model->image_encoder()->dimension());
  }
  return least == SIZE_MAX ? 1 : least;
}

// The greatest token id that all of the models have.
std::size_t last_token_of(const std::vector<const ServedModel*>& models) {
  std::size_t least = std::size_t{1} << 32;
  for (const ServedModel* model : models) {
    if (const text::Tokenizer* tokenizer = tokenizer_of(*model)) least = std::min(least, tokenizer->vocabulary_size());
  }
  return std::max<std::size_t>(least, 1) - 1;
}

}  // namespace

Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}, {"maxItems", max_texts}};
}

bool any_is(const std::vector<const ServedModel*>& models, TextAbility ability) {
  return std::ranges::any_of(models, [&](const ServedModel* model) { return is_able(*model, ability); });
}

Json model_names(const std::vector<const ServedModel*>& models) {
  // An empty name stands for the default model.
  Json names = Json::array({""});
  for (const ServedModel* model : models) names.push_back(model->name());
  return or_null({{"enum", std::move(names)}});
}

Json prompt_names(const ServedList& models) {
  std::optional<std::set<std::string>> common;
  for (const ServedModel* model : models) {
    const auto names =
        model->encoder() ? embedding::prompt_names(model->encoder()->model()) : std::vector<std::string>();
    std::set<std::string> both;
    for (const std::string& name : names) {
      if (!common || common->contains(name)) both.insert(name);
    }
    common = std::move(both);
  }
  return common && !common->empty() ? or_null({{"enum", *common}}) : Json();
}

Json token_schema(const std::vector<const ServedModel*>& models) {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", last_token_of(models)}};
}

Json dimensions_schema(const ServedList& models) {
  return or_null({{"type", "integer"}, {"minimum", 1}, {"maximum", dimensions_of(models)}});
}

Json text_or_tokens(const Json& text, const ServedList& models) {
  const Json tokens = list_of(token_schema(models));
  return {{"anyOf", Json::array({text, tokens, list_of({{"anyOf", Json::array({text, tokens})}})})}};
}

}  // namespace gpux::server::openapi
