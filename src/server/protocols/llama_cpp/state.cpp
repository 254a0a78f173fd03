#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/home.h"
#include "server/protocols/generate.h"
#include "server/protocols/llama_cpp/handlers.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/openai/chat_requests.h"
#include "server/protocols/openapi/schema.h"
#include "tensor/json_writer.h"

namespace gpux::server::llama_cpp {
namespace {

using openapi::Json;

// For the model that the query names.
RouteCall named_in_query(const RouteCall& call) {
  RouteCall named = call;
  if (auto model = call.request().query_parameter("model"); model && !model->empty()) named.name = std::move(*model);
  return named;
}

Json default_settings(const ServedModel& model) {
  const generation::Sampling& defaults = model.engine()->files().defaults.sampling;
  return {{"id", 0},
          {"n_ctx", model.engine()->context_length()},
          {"speculative", false},
          {"is_processing", false},
          {"params",
           {{"temperature", defaults.temperature},
            {"top_k", defaults.top_k},
            {"top_p", defaults.top_p},
            {"min_p", defaults.min_p},
            {"typical_p", defaults.typical_p},
            {"repeat_penalty", defaults.repetition_penalty},
            {"presence_penalty", defaults.presence_penalty},
            {"frequency_penalty", defaults.frequency_penalty},
            {"max_tokens", -1},
            {"stream", true}}}};
}

}  // namespace

void show_properties(const RouteCall& call) {
  with_able(
      named_in_query(call), TextAbility::generate,
      [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        const bool has_template = model->chat() != nullptr;
        const Json properties{{"default_generation_settings", default_settings(*model)},
                              {"total_slots", model->engine_statistics().slots},
                              {"model_alias", model->name()},
                              {"model_path", model->name()},
                              {"chat_template", has_template ? model->chat()->template_text(false) : std::string()},
                              {"modalities", {{"vision", false}, {"audio", false}}},
                              {"build_info", fmt::format("gpux {}", gpux::version())}};
        with.exchange->respond(http::Response::json(200, properties.dump()));
      },
      MayPull::no);
}

// What the slots hold belongs to their clients: only how many are in use is reported.
void list_slots(const RouteCall& call) {
  with_able(
      named_in_query(call), TextAbility::generate,
      [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        const generation::EngineStatistics now = model->engine_statistics();
        std::string out = "[";
        for (std::size_t i = 0; i < now.slots; ++i) {
          out += fmt::format(R"({}{{"id":{},"n_ctx":{},"speculative":false,"is_processing":{}}})", i == 0 ? "" : ",", i,
                             model->engine()->context_length(), i < now.running);
        }
        with.exchange->respond(http::Response::json(200, out + "]"));
      },
      MayPull::no);
}

void apply_template(const RouteCall& call) {
  const std::string_view body = call.request().body.text();
  const auto share = hold_for_reading(call.work, body, bytes_per_json_member);
  const auto asked = std::make_shared<OpenAiChat>(read_chat(body, call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = asked->model;
  with_able(named, TextAbility::chat, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    GenerationRequest request{.asked = std::move(asked->chat),
                              .members = {.prompt = "messages",
                                          .form = std::move(asked->form_member),
                                          .reasoning = std::move(asked->reasoning_member)}};
    render_prompt(with, model, std::move(request), [](std::string_view prompt) {
      std::string out = R"({"prompt":)";
      append_json_string(out, prompt);
      return out + '}';
    });
  });
}

}  // namespace gpux::server::llama_cpp
