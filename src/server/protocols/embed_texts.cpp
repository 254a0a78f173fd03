#include "server/protocols/embed_texts.h"

#include <utility>

#include "server/protocols/error_answers.h"

namespace gpux::server {

void embed_texts(const std::shared_ptr<http::Exchange>& exchange, Protocol protocol, const RequestWork& work,
                 const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts, EmbedJobOptions options,
                 VectorsAnswer body) {
  const http::Request& request = exchange->request();
  options.request = work;
  options.arrived = request.arrived;
  std::shared_ptr<RunJob> job;
  try {
    model->encoder()->check(options.embed);
    job = make_embed_job(model, std::move(texts), std::move(options),
                         [exchange, protocol, body = std::move(body), cancellation = work.cancellation(),
                          compute_type = compute_type_of(model->runtime().verdict()),
                          arrived = request.arrived](const std::optional<Error>& error, EmbedJobResult& result) {
                           try {
                             if (error) throw Error(*error);
                             cancellation.check();
                             http::Response response = body(result);
                             add_text_headers(response, result.figures, compute_type, arrived);
                             result.memory->release();
                             exchange->respond(std::move(response));
                           } catch (...) {
                             exchange->respond(error_response(current_error(), protocol));
                           }
                         });
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  cancel_when_gone(*exchange, work, [job] { job->cancel(); });
  job->start();
}

}  // namespace gpux::server
