#include "server/protocols/tei/run_texts.h"

#include <utility>

#include "server/jobs/infer_submission.h"
#include "server/jobs/text_figures.h"
#include "server/protocols/error_answers.h"

namespace gpux::server::tei {

pipeline::PrepareOptions prepared_as(const TextTreatment& treatment) {
  pipeline::PrepareOptions options;
  options.truncate = treatment.truncate;
  if (treatment.truncate_left) options.truncate_left = true;
  return options;
}

void run_texts(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
               const std::shared_ptr<ServedModel>& model, NamedValues inputs, std::vector<std::string> outputs,
               const pipeline::PrepareOptions& options, Body body) {
  const http::Request& request = exchange->request();
  const auto figures = std::make_shared<TextFigures>();
  const Pending pending = submit_infer(
      model,
      {.inputs = std::move(inputs), .outputs = output_indices(outputs, model->signature()), .arrived = request.arrived},
      work,
      [exchange, body = std::move(body), figures, compute_type = compute_type_of(model->runtime().verdict()),
       arrived = request.arrived](runtime::InferAnswer&& answer) {
        try {
          if (answer.error) throw Error(*answer.error);
          http::Response response = http::Response::json(200, body(answer.outputs));
          add_text_headers(response, *figures, compute_type, arrived);
          exchange->respond(std::move(response));
        } catch (...) {
          exchange->respond(error_response(current_error(), Protocol::texts));
        }
      },
      runtime::Here::allowed, {.prepare = options, .figures = figures});
  if (pending) cancel_when_gone(*exchange, work, [pending] { pending.cancel(); });
}

Tensor strings_of(std::vector<std::string> texts) {
  const auto count = static_cast<std::int64_t>(texts.size());
  return Tensor::of_strings({count}, std::move(texts));
}

}  // namespace gpux::server::tei
