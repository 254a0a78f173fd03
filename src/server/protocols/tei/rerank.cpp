#include <utility>

#include <fmt/format.h>

#include "server/protocols/model_choice.h"
#include "server/protocols/tei/handlers.h"
#include "server/protocols/tei/rank_texts.h"
#include "server/protocols/tei/requests.h"
#include "tensor/json_writer.h"

namespace gpux::server::tei {
namespace {

std::string ranking_json(const std::vector<float>& scores, const Rerank& asked) {
  std::string out = "[";
  for (const std::size_t index : highest_first(scores)) {
    if (out.size() > 1) out += ',';
    out += fmt::format(R"({{"index":{},)", index);
    if (asked.return_text) {
      out += R"("text":)";
      append_json_string(out, asked.texts[index]);
      out += ',';
    }
    out += R"("score":)";
    append_json(out, Tensor::of<float>({}, std::span(&scores[index], 1)));
    out += '}';
  }
  return out + "]";
}

}  // namespace

void rerank(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<const Rerank>(read_rerank(call.request().body.text(), call.work));
  with_able(call, TextAbility::rank, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    rank_texts(with, model, asked, [asked](const std::vector<float>& scores) { return ranking_json(scores, *asked); });
  });
}

}  // namespace gpux::server::tei
