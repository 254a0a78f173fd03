#include "server/protocols/own/routes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "gpux/provider_manager.h"
#include "server/metrics/metrics.h"
#include "server/models/health_report.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/own/openapi_document.h"
#include "server/protocols/own/operations.h"
#include "server/protocols/own/predict.h"
#include "server/protocols/readiness.h"
#include "server/protocols/text_inputs.h"
#include "server/protocols/transport_counts.h"
#include "tensor/json_writer.h"

/// The routes of gpux's own protocol.
namespace gpux::server::own {
namespace {

using Clock = std::chrono::steady_clock;

// The keys of text-embeddings-inference's /info that are not among gpux's own.
void append_encoder_info(std::string& out, const ModelDescription& model, const EncoderDescription& encoder) {
  out += R"(,"model_id":)";
  append_json_string(out, model.name);
  out += R"(,"served_model_name":)";
  append_json_string(out, model.name);
  out += fmt::format(R"(,"model_type":{{"embedding":{{"pooling":"{}"}}}})", encoder.pooling);
  out += fmt::format(R"(,"dimension":{},"max_input_length":{},"max_client_batch_size":{},"auto_truncate":true)",
                     encoder.dimension, encoder.max_tokens, max_texts);
  const auto batch_tokens = max_batch_tokens(model.options, model.can_batch, encoder.max_tokens);
  out += fmt::format(R"(,"max_concurrent_requests":{},"max_batch_tokens":{})", model.options.max_queue,
                     batch_tokens ? std::to_string(*batch_tokens) : "null");
  out += R"(,"prompts":[)";
  for (const std::string& name : encoder.prompts) {
    if (&name != &encoder.prompts.front()) out += ',';
    append_json_string(out, name);
  }
  out += ']';
}

void append_values(std::string& out, const std::vector<SignatureEntry>& entries) {
  out += '[';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SignatureEntry& entry = entries[i];
    out += i == 0 ? R"({"name":)" : R"(,{"name":)";
    append_json_string(out, entry.name);
    out += R"(,"type":)";
    append_json_string(
        out, entry.type.kind == ValueKind::tensor ? std::string(to_string(entry.type.element)) : to_string(entry.type));
    out += R"(,"shape":)";
    if (entry.type.dimensions) {
      out += '[';
      for (std::size_t d = 0; d < entry.type.dimensions->size(); ++d) {
        const Dimension& dimension = (*entry.type.dimensions)[d];
        if (d != 0) out += ',';
        if (dimension.size) {
          out += std::to_string(*dimension.size);
        } else if (dimension.name.empty()) {
          out += "null";
        } else {
          append_json_string(out, dimension.name);
        }
      }
      out += ']';
    } else {
      out += "null";
    }
    out += fmt::format(R"(,"required":{},"description":)", entry.required);
    append_json_string(out, entry.description);
    out += '}';
  }
  out += ']';
}

void append_model_info(std::string& out, const ModelDescription& model) {
  const ModelInfo& info = model.info;
  out += R"({"name":)";
  append_json_string(out, model.name);
  out += R"(,"version":)";
  append_json_string(out, model.version);
  out += fmt::format(R"(,"format":"onnx","size_bytes":{},"size_mb":{:.2f},"inputs":)", info.size_bytes,
                     static_cast<double>(info.size_bytes) / 1e6);
  append_values(out, model.signature.inputs);
  out += R"(,"outputs":)";
  append_values(out, model.signature.outputs);
  out += R"(,"metadata":{)";
  bool first = true;
  for (const auto& [key, value] : info.metadata) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, key);
    out += ':';
    append_json_string(out, value);
  }
  out += R"(},"provider":)";
  const Verdict& verdict = model.verdict;
  append_json_string(out, verdict.active.empty() ? "" : verdict.active.front());
  out += R"(,"verdict":)";
  append_json_string(out, to_line(verdict));
  const ServingOptions& options = model.options;
  out += R"(,"run_sharing":)";
  out += to_json(options.sharing);
  out += fmt::format(R"(,"batching":{},"max_batch_size":{},"max_batch_cost":{},"padding":[)", model.can_batch,
                     model.can_batch ? options.max_batch_size : 1,
                     options.max_batch_cost == 0 ? "null" : std::to_string(options.max_batch_cost));
  if (options.padding != nullptr) {
    for (const runtime::PaddedInput& input : options.padding->inputs) {
      if (&input != &options.padding->inputs.front()) out += ',';
      append_json_string(out, input.name);
    }
  }
  out += fmt::format(R"(],"max_queue":{})", options.max_queue);
  if (const auto& encoder = model.encoder) append_encoder_info(out, model, *encoder);
  out += '}';
}

void health(const RouteCall& call) {
  const std::vector<std::string> names = call.service.repository.names();
  const HealthReport report = health_of(call.service.repository.index(), call.service.is_ready);
  std::string text = R"({"status":")";
  text += name_of(report.health);
  text += R"(","model":)";
  append_json_string(
      text, names.size() == 1 ? names.front() : call.service.repository.name_of(call.service.options.default_model));
  text += R"(,"models":[)";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += ',';
    append_json_string(text, names[i]);
  }
  text += R"(],"problems":{)";
  for (std::size_t i = 0; i < report.problems.size(); ++i) {
    if (i != 0) text += ',';
    append_json_string(text, report.problems[i].model);
    text += ':';
    append_json_string(text, report.problems[i].problem);
  }
  text += fmt::format(R"(}},"uptime_seconds":{:.1f}}})",
                      std::chrono::duration<double>(Clock::now() - call.service.started).count());
  call.exchange->respond(http::Response::json(report.health == Health::unhealthy ? 503 : 200, std::move(text)));
}

void info(const RouteCall& call) {
  std::string text;
  append_model_info(text, *call.service.repository.description(name_for(call), call.version.value_or("")));
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void list(const RouteCall& call) {
  const auto models = call.service.repository.descriptions();
  std::string text = R"({"models":[)";
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i != 0) text += ',';
    append_model_info(text, *models[i]);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void metrics(const RouteCall& call) {
  struct Form {
    std::string_view type;
    RenderedPage* page = nullptr;
  };

  ServiceState& service = call.service;
  const MetricFormat format = metric_format(call.request().headers["Accept"]);
  const auto form = [&]() -> Form {
    switch (format) {
      case MetricFormat::json:
        return {"application/json", &service.metrics_json};
      case MetricFormat::open_metrics:
        return {"application/openmetrics-text; version=1.0.0; charset=utf-8", &service.metrics_open};
      case MetricFormat::prometheus:
        break;
    }
    return {"text/plain; version=0.0.4; charset=utf-8", &service.metrics_text};
  }();
  const auto render = [&] {
    const auto models = service.repository.models_in_use();
    const TransportCounts transport = transport_counts(service);
    if (format == MetricFormat::json) return json_metrics(models, transport);
    if (format == MetricFormat::prometheus) return prometheus_text(models, transport);
    return open_metrics_text(prometheus_text(models, transport, WithExemplars::yes));
  };
  http::Response response;
  response.headers.add("Content-Type", std::string(form.type));
  response.pieces.push_back(form.page->not_before(call.request().received, render));
  call.exchange->respond(std::move(response));
}

void document(const RouteCall& call) {
  call.exchange->respond(http::Response::json(
      200, openapi_json(call.service.repository.models(),
                        call.service.repository.name_of(call.service.options.default_model), call.service.routes,
                        call.service.options.access->rules()->keys.are_required())));
}

void page(const RouteCall& call) {
  http::Response response;
  response.headers.add("Content-Type", "text/html; charset=utf-8");
  response.text = openapi_page(call.service.repository.models(),
                               call.service.repository.name_of(call.service.options.default_model), call.service.routes,
                               call.service.options.access->rules()->keys.are_required());
  call.exchange->respond(std::move(response));
}

constexpr RouteContract predict_contract{
    .body = BodyKind::any, .answering = Answering::in_turn, .describe = describe_predict, .is_cacheable = true};
constexpr RouteContract by_readiness{.answering = Answering::by_readiness};
constexpr RouteContract metrics_contract{.describe = describe_metrics};
constexpr RouteContract page_contract{.describe = describe_page};

constexpr std::array<Route, 11> table{{
    {"POST", "/predict", "Run a model", RouteKey::any, Protocol::own, predict, predict_contract},
    {"POST", "/models/{name}/predict", "Run a model", RouteKey::any, Protocol::own, predict, predict_contract},
    {"GET", "/health", "Whether the server is healthy", RouteKey::none, Protocol::own, health, by_readiness},
    {"GET", "/health/live", "Whether the process answers", RouteKey::none, Protocol::own, answer_live, by_readiness},
    {"GET", "/health/ready", "Whether every model answers", RouteKey::none, Protocol::own, answer_ready, by_readiness},
    {"GET", "/ping", "The same, as SageMaker asks", RouteKey::none, Protocol::own, answer_ready, by_readiness},
    {"GET", "/models/{name}/health/ready", "Whether the model answers", RouteKey::none, Protocol::own, answer_ready,
     by_readiness},
    {"GET", "/info", "Inputs and outputs of the model, and where it runs", RouteKey::any, Protocol::own, info},
    {"GET", "/models/{name}/info", "Inputs and outputs of the model, and where it runs", RouteKey::any, Protocol::own,
     info},
    {"GET", "/models", "The models served", RouteKey::any, Protocol::own, list},
    {"GET", "/metrics", "Counters, as Prometheus reads them", RouteKey::none, Protocol::own, metrics, metrics_contract},
}};

constexpr std::array<Route, 2> document_table{{
    {"GET", "/openapi.json", "These routes with the models' signatures, as OpenAPI 3.1", RouteKey::any, Protocol::own,
     document},
    {"GET", "/docs", "The same to read", RouteKey::any, Protocol::own, page, page_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

std::span<const Route> document_routes() noexcept {
  return document_table;
}

}  // namespace gpux::server::own
