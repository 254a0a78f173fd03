#include "server/protocols/cohere/requests.h"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server::cohere {
namespace {

using enum FieldKind;
using enum FieldUse;
using Schema = openapi::Json;

constexpr std::array<Field, 1> document_table{{{"text", text, required}}};

Schema documents_schema(const ServedList& models) {
  const Schema any_text{{"type", "string"}};
  const Schema of_text = openapi::object_schema(document_table, models);
  return openapi::list_of({{"anyOf", Schema::array({any_text, of_text})}});
}

constexpr auto rank_table = std::to_array<Field>({
    {"model", text, optional, openapi::model_names},
    {"query", text, required},
    {"documents", other, required, documents_schema},
    {"top_n", count},
    {"return_documents", flag},
    ignored_field("priority"),
    ignored_field("client_name"),
    refused_field("truncation", "a document is cut where the model's texts end; accepted: true", "true"),
    refused_field("rank_fields", "documents are ranked by their text"),
    refused_field("max_tokens_per_doc", "a document is cut where the model's texts end"),
    refused_field("max_chunks_per_doc", "a document is one text, cut where the model's texts end"),
    refused_field("return_embeddings", "accepted is the route /embed", "false"),
});

std::string text_of(const RequestJson& document, const std::string& place, Members& members) {
  if (document.is_string()) return document.get<std::string>();
  Members known = members.inside(document, place, document_table);
  const RequestJson& text = known.must_find("text");
  if (!text.is_string()) refuse_member(place + ".text", "is no text");
  known.finish();
  return text.get<std::string>();
}

}  // namespace

RankDocuments read_documents(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::inputs);
  Members members(json, "", rank_table, reading.rules);
  RankDocuments read;
  read.model = members.text("model");
  const RequestJson& query = members.must_find("query");
  if (!query.is_string()) refuse_member("query", "is no text");
  read.ranking.query = query.get<std::string>();
  const RequestJson& documents = members.must_find("documents");
  if (!documents.is_array()) refuse_member("documents", "is no list");
  check_count(documents.size(), "documents");
  for (std::size_t i = 0; i < documents.size(); ++i) {
    read.ranking.texts.push_back(text_of(documents[i], fmt::format("documents[{}]", i), members));
  }
  read.top_n = members.count("top_n");
  read.ranking.return_text = members.flag("return_documents", false);
  members.finish();
  return read;
}

std::span<const Field> rank_fields() {
  return rank_table;
}

}  // namespace gpux::server::cohere
