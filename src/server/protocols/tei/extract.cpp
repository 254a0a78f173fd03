#include "server/protocols/tei/extract.h"

#include <string>
#include <utility>

#include "server/protocols/error_answers.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/tei/inputs_member.h"
#include "server/protocols/tei/requests.h"
#include "server/protocols/tei/run_texts.h"

namespace gpux::server::tei {
namespace {

// The outputs that are JSON: one of a request for one text, or a list.
Body json_texts(bool is_list) {
  return [is_list](const NamedValues& outputs) {
    const std::span<const std::string> texts = outputs.front().second.tensor()->strings();
    if (!is_list) return texts.front();
    std::string all = "[";
    for (const std::string& text : texts) {
      if (&text != &texts.front()) all += ',';
      all += text;
    }
    return all + "]";
  };
}

void run(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
         const std::shared_ptr<ServedModel>& model) {
  const http::Request& request = exchange->request();
  if (is_plain_text(request)) {
    if (!is_able(*model, TextAbility::find_entities)) {
      throw Error(ErrorCode::invalid_input, "the body is a text; accepted: a question and its context, as JSON");
    }
    run_texts(exchange, work, model, {{"text", strings_of({std::string(read_plain_text(request))})}}, {"entities"}, {},
              json_texts(false));
    return;
  }
  const std::string_view body = request.body.text();
  const auto share = hold_for_reading(work, body, bytes_per_json_string);
  if (is_able(*model, TextAbility::answer_questions)) {
    AskedQuestions asked = read_questions(body, work);
    run_texts(
        exchange, work, model,
        {{"question", strings_of(std::move(asked.questions))}, {"context", strings_of(std::move(asked.contexts))}},
        {"answers"}, {}, json_texts(asked.is_list));
    return;
  }
  EntityTexts asked = read_entities(body, work);
  run_texts(exchange, work, model, {{"text", strings_of(std::move(asked.texts))}}, {"entities"}, {},
            json_texts(asked.is_list));
}

}  // namespace

bool is_for_extraction(const ServedModel& model, std::string_view body) {
  const bool extracts = is_able(model, TextAbility::find_entities) || is_able(model, TextAbility::answer_questions);
  return extracts && has_inputs_member(model, body);
}

void extract(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
             const std::shared_ptr<ServedModel>& model) {
  try {
    run(exchange, work, model);
  } catch (const Error& error) {
    model->statistics().count(error, exchange->request().arrived);
    exchange->respond(error_response(error, Protocol::texts));
  }
}

}  // namespace gpux::server::tei
