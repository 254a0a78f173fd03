#include "server/protocols/cohere/routes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/protocols/cohere/operations.h"
#include "server/protocols/cohere/requests.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/tei/rank_texts.h"
#include "server/requests/request_trace.h"
#include "tensor/json_writer.h"

namespace gpux::server::cohere {
namespace {

std::string ranking_json(const std::vector<float>& scores, const RankDocuments& asked, const std::string& model) {
  std::string out = fmt::format(R"({{"id":"{}","model":)", name_request({}, {}).id);
  append_json_string(out, model);
  out += R"(,"results":[)";
  const std::vector<std::size_t> order = tei::highest_first(scores);
  const std::size_t count = asked.top_n == 0 ? order.size() : std::min(asked.top_n, order.size());
  for (std::size_t i = 0; i < count; ++i) {
    out += fmt::format(R"({}{{"index":{},"relevance_score":)", i == 0 ? "" : ",", order[i]);
    append_json(out, Tensor::of<float>({}, std::span(&scores[order[i]], 1)));
    if (asked.ranking.return_text) {
      out += R"(,"document":{"text":)";
      append_json_string(out, asked.ranking.texts[order[i]]);
      out += '}';
    }
    out += '}';
  }
  return out + "]}";
}

void rank(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<const RankDocuments>(read_documents(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = asked->model;
  with_able(named, TextAbility::rank, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    const std::shared_ptr<const Rerank> ranking(asked, &asked->ranking);
    tei::rank_texts(with, model, ranking, [asked, name = model->name()](const std::vector<float>& scores) {
      return ranking_json(scores, *asked, name);
    });
  });
}

constexpr RouteContract rank_contract{
    .ability = TextAbility::rank, .answering = Answering::in_turn, .fields = rank_fields, .describe = describe_rank};

constexpr std::array<Route, 2> table{{
    {"POST", "/v1/rerank", "Documents by how well they answer a query, as Cohere's and Jina's clients ask for them",
     RouteKey::any, Protocol::texts, rank, rank_contract},
    {"POST", "/v2/rerank", "Documents by how well they answer a query, as Cohere's clients ask for them", RouteKey::any,
     Protocol::texts, rank, rank_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::cohere
