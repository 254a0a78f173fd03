#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "server/protocols/field.h"
#include "server/protocols/request_json.h"
#include "server/protocols/tei/requests.h"

/// Requests to rank documents in the form of Cohere's API, which Jina's has, too. Sources: Cohere's API reference,
/// "Rerank API" v1 and v2, and Jina's, "Reranker API".
namespace gpux::server::cohere {

struct RankDocuments {
  std::string model;      ///< empty: the one that can
  Rerank ranking;         ///< the query and the documents' texts; return_text: documents in the answer
  std::size_t top_n = 0;  ///< the best so many; 0: all
};

/// POST /v1/rerank, POST /v2/rerank: {"model", "query", "documents", "top_n", "return_documents"}. A document is a
/// text, or an object with "text". Errors as of read_rerank().
RankDocuments read_documents(std::string_view body, const BodyReading& reading = {});

std::span<const Field> rank_fields();

}  // namespace gpux::server::cohere
