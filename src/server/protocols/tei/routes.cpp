#include "server/protocols/tei/routes.h"

#include <array>

#include "server/protocols/model_choice.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/tei/classify.h"
#include "server/protocols/tei/extract.h"
#include "server/protocols/tei/handlers.h"
#include "server/protocols/tei/operations.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::tei {
namespace {

// similarity() where the body asks for it; else whatever of embed(), rerank() and classification the model can do.
void answer_by_ability(const RouteCall& call) {
  if (!is_plain_text(call.request()) && is_similarity(call.request().body.text())) {
    similarity(call);
    return;
  }
  with_able(call, TextAbility::any, [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    RouteCall named = with;
    named.name = model->name();
    if (is_able(*model, TextAbility::embed)) {
      embed(named);
    } else if (is_able(*model, TextAbility::embed_sparse)) {
      embed_sparse(named);
    } else if (is_able(*model, TextAbility::rank)) {
      rerank(named);
    } else if (is_able(*model, TextAbility::classify)) {
      classify(with.exchange, with.work, model);
    } else {
      extract(with.exchange, with.work, model);
    }
  });
}

constexpr RouteContract answer_by_ability_contract{.body = BodyKind::json_or_text,
                                                   .ability = TextAbility::any,
                                                   .answering = Answering::in_turn,
                                                   .describe = describe_by_ability,
                                                   .is_cacheable = true};
constexpr RouteContract embed_contract{.body = BodyKind::json_or_text,
                                       .ability = TextAbility::embed,
                                       .answering = Answering::in_turn,
                                       .fields = embed_fields,
                                       .describe = describe_embed,
                                       .is_cacheable = true};
constexpr RouteContract embed_all_contract{.body = BodyKind::json_or_text,
                                           .ability = TextAbility::embed_tokens,
                                           .answering = Answering::in_turn,
                                           .fields = embed_all_fields,
                                           .describe = describe_embed_all,
                                           .is_cacheable = true};
constexpr RouteContract embed_sparse_contract{.body = BodyKind::json_or_text,
                                              .ability = TextAbility::embed_sparse,
                                              .answering = Answering::in_turn,
                                              .fields = embed_sparse_fields,
                                              .describe = describe_embed_sparse,
                                              .is_cacheable = true};
constexpr RouteContract rerank_contract{.ability = TextAbility::rank,
                                        .answering = Answering::in_turn,
                                        .fields = rerank_fields,
                                        .describe = describe_rerank,
                                        .is_cacheable = true};
constexpr RouteContract similarity_contract{.ability = TextAbility::embed,
                                            .answering = Answering::in_turn,
                                            .fields = similarity_fields,
                                            .describe = describe_similarity,
                                            .is_cacheable = true};
constexpr RouteContract decode_contract{.ability = TextAbility::tokenize,
                                        .answering = Answering::in_turn,
                                        .fields = decode_fields,
                                        .describe = describe_decode};

constexpr std::array<Route, 13> table{{
    {"POST", "/", "Vectors of texts, or the outputs of a classifier or ranker", RouteKey::any, Protocol::texts,
     answer_by_ability, answer_by_ability_contract},
    {"POST", "/embed", "Vectors of texts", RouteKey::any, Protocol::texts, embed, embed_contract},
    {"POST", "/models/{name}/embed", "Vectors of texts", RouteKey::any, Protocol::texts, embed, embed_contract},
    {"POST", "/embed_all", "Vectors of the tokens of texts", RouteKey::any, Protocol::texts, embed_all,
     embed_all_contract},
    {"POST", "/models/{name}/embed_all", "Vectors of the tokens of texts", RouteKey::any, Protocol::texts, embed_all,
     embed_all_contract},
    {"POST", "/embed_sparse", "Sparse vectors of texts", RouteKey::any, Protocol::texts, embed_sparse,
     embed_sparse_contract},
    {"POST", "/models/{name}/embed_sparse", "Sparse vectors of texts", RouteKey::any, Protocol::texts, embed_sparse,
     embed_sparse_contract},
    {"POST", "/rerank", "Texts by how well they answer a query", RouteKey::any, Protocol::texts, rerank,
     rerank_contract},
    {"POST", "/models/{name}/rerank", "Texts by how well they answer a query", RouteKey::any, Protocol::texts, rerank,
     rerank_contract},
    {"POST", "/similarity", "How near texts are to one", RouteKey::any, Protocol::texts, similarity,
     similarity_contract},
    {"POST", "/models/{name}/similarity", "How near texts are to one", RouteKey::any, Protocol::texts, similarity,
     similarity_contract},
    {"POST", "/decode", "The texts of tokens", RouteKey::any, Protocol::texts, decode, decode_contract},
    {"POST", "/models/{name}/decode", "The texts of tokens", RouteKey::any, Protocol::texts, decode, decode_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::tei
