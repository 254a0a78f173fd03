#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/jobs/embed_job.h"
#include "server/protocols/call.h"

namespace gpux::server {

/// Makes the answer from the result of an embedding job; may move from it.
using VectorsAnswer = std::function<http::Response(EmbedJobResult& result)>;

/// Answers with vectors of texts. `model` has an encoder. Errors as of make_embed_job().
void embed_texts(const std::shared_ptr<http::Exchange>& exchange, Protocol protocol, const RequestWork& work,
                 const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts, EmbedJobOptions options,
                 VectorsAnswer body);

}  // namespace gpux::server
