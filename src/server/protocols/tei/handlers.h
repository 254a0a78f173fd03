#pragma once

#include "server/protocols/call.h"

/// Answers to the requests of text-embeddings-inference's clients.
namespace gpux::server::tei {

void embed(const RouteCall& call);
void embed_all(const RouteCall& call);
void embed_sparse(const RouteCall& call);
void similarity(const RouteCall& call);
void rerank(const RouteCall& call);
void tokenize(const RouteCall& call);
void decode(const RouteCall& call);

}  // namespace gpux::server::tei
