#include "server/protocols/open_inference/routes.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/home.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "server/jobs/infer_submission.h"
#include "server/models/probe.h"
#include "server/protocols/answer_times.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/open_inference/messages.h"
#include "server/protocols/open_inference/operations.h"
#include "server/protocols/readiness.h"
#include "server/protocols/request_json.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

/// The routes of the Open Inference Protocol, and of its extensions that Triton has.
namespace gpux::server::open_inference_v2 {
namespace {

bool takes_texts(const ServedModel& model) {
  const auto& inputs = model.signature().inputs;
  return model.image_input() != nullptr || std::any_of(inputs.begin(), inputs.end(), [](const SignatureEntry& entry) {
           return entry.type.kind == ValueKind::tensor && entry.type.element == ElementType::string;
         });
}

void infer_with(const RouteCall& call, const std::shared_ptr<ServedModel>& model) {
  const std::shared_ptr<http::Exchange>& exchange = call.exchange;
  const RequestWork& work = call.work;
  const http::Request& request = exchange->request();
  std::optional<std::uint64_t> json_bytes;
  if (const auto text = request.headers.find("Inference-Header-Content-Length")) {
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (failure != std::errc() || end != text->data() + text->size()) {
      throw Error(ErrorCode::invalid_input, "Inference-Header-Content-Length is not a number of bytes");
    }
    json_bytes = value;
  }
  std::shared_ptr<InferCall> asked;
  std::shared_ptr<MemoryShare> share;
  try {
    const std::string_view body = request.body.text();
    const bool has_texts = takes_texts(*model);
    share = hold_for_reading(work, body.substr(0, json_bytes.value_or(body.size())),
                             has_texts ? bytes_per_json_string : bytes_per_json_number);
    // A text of a binary tensor has four bytes for its length at least.
    if (json_bytes && has_texts) {
      if (share == nullptr) share = work.hold(0, "reading the body");
      grow_share(*share, work.memory, body.size() / 4 * sizeof(std::string) + body.size(), "reading the body");
    }
    const InferReading reading{.regions = call.service.options.shared_regions.get(), .hold = [&](std::uint64_t bytes) {
                                 if (share == nullptr) share = work.hold(0, "reading shared memory");
                                 grow_share(*share, work.memory, bytes, "reading shared memory");
                               }};
    asked = std::make_shared<InferCall>(read_infer_call(request.body, json_bytes, model->signature(), reading));
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  // What was read is all that is kept.
  if (share != nullptr) (void)share->resize(std::min(share->bytes(), bytes_of(asked->run.inputs)));
  if (const auto timeout = asked->timeout) work.deadline.bring_forward(request.arrived + *timeout);
  asked->run.arrived = request.arrived;
  const Pending pending = submit_infer(
      model, std::move(asked->run), work,
      [exchange, model, asked, share, arrived = request.arrived](runtime::InferAnswer&& result) {
        try {
          if (result.error) throw Error(*result.error);
          http::Response response = write_infer_response({.model_name = model->name(),
                                                          .model_version = model->version(),
                                                          .call = *asked,
                                                          .outputs = result.outputs,
                                                          .declared = model->declared_outputs(),
                                                          .verdict = model->ran_on().header});
          add_times(response, result.times, arrived);
          exchange->respond(std::move(response));
        } catch (...) {
          exchange->respond(error_response(current_error(), Protocol::open_inference));
        }
      },
      runtime::Here::allowed);
  if (pending) cancel_when_gone(*exchange, work, [pending] { pending.cancel(); });
}

// What /v2/repository/… is given: the text of the parameter of that name, if it has it; no other is accepted.
std::optional<std::string> read_parameter(std::string_view body, std::string_view accepted) {
  std::optional<std::string> given;
  if (body.empty()) return given;
  for (const JsonInput& member : split_object(body)) {
    if (member.name != "parameters") {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("the request has no member '{}'", utf8_prefix(member.name, 60)));
    }
    for (const JsonInput& parameter : split_object(member.raw)) {
      if (parameter.name != accepted) {
        throw Error(ErrorCode::invalid_input,
                    fmt::format("parameters.{} is not supported: files of models are on the server's disk",
                                utf8_prefix(parameter.name, 60)));
      }
      given = parameter.raw;
    }
  }
  return given;
}

// The configuration that a model is to be loaded with: Triton's, as JSON in a string.
std::optional<std::string> read_config(std::string_view body) {
  const std::optional<std::string> raw = read_parameter(body, "config");
  if (!raw) return std::nullopt;
  const auto text = nlohmann::json::parse(*raw, nullptr, false);
  if (!text.is_string()) throw Error(ErrorCode::invalid_input, "parameters.config is a string with JSON in it");
  return text.get<std::string>();
}

void server_metadata(const RouteCall& call) {
  std::string text = R"({"name":"gpux","version":)";
  append_json_string(text, gpux::version());
  text += R"(,"extensions":[)";
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    if (i != 0) text += ',';
    append_json_string(text, extensions[i]);
  }
  if (call.service.options.shared_regions != nullptr) {
    text += ',';
    append_json_string(text, shared_memory_extension);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void model_metadata(const RouteCall& call) {
  const auto model = call.service.repository.description(name_for(call), call.version.value_or(""));
  std::string text = R"({"name":)";
  append_json_string(text, model->name);
  text += R"(,"versions":[)";
  const std::vector<std::string> versions = call.service.repository.versions(model->name);
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (i != 0) text += ',';
    append_json_string(text, versions[i]);
  }
  text += R"(],"platform":"onnx_onnxv1","inputs":[)";
  const auto values = [&](const std::vector<SignatureEntry>& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) text += ',';
      append_metadata_tensor(text, entries[i]);
    }
  };
  values(model->signature.inputs);
  text += R"(],"outputs":[)";
  values(model->signature.outputs);
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void config(const RouteCall& call) {
  std::string text;
  append_model_config(text, *call.service.repository.description(name_for(call), call.version.value_or("")));
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void model_ready(const RouteCall& call) {
  const std::string name = name_for(call);
  if (!call.service.is_ready) {
    respond_readiness(*call.exchange, false, "the server is shutting down");
    return;
  }
  probe(call.service.repository, name, call.version.value_or(""),
        {call.service.options.probe_timeout, call.service.options.probe_after},
        [exchange = call.exchange, name = call.service.repository.name_of(name)](bool answered) {
          std::string text = R"({"name":)";
          append_json_string(text, name);
          text += fmt::format(R"(,"ready":{}}})", answered);
          exchange->respond(http::Response::json(answered ? 200 : 503, std::move(text)));
        });
}

void infer(const RouteCall& call) {
  with_model(call, [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    // Numbers of binary tensors stay where they are; texts do not.
    const std::size_t bytes = with.request().body.bytes.size();
    if (with.is_read_later || bytes <= with.service.options.read_here_bytes || !takes_texts(*model)) {
      infer_with(with, model);
      return;
    }
    do_later(with, bytes, [with, model] {
      try {
        infer_with(with, model);
      } catch (...) {
        with.exchange->respond(error_response(current_error(), with.protocol));
      }
      return false;
    });
  });
}

void statistics(const RouteCall& call) {
  std::vector<std::shared_ptr<const ModelDescription>> models;
  if (call.name) {
    models.push_back(call.service.repository.description(*call.name, call.version.value_or("")));
  } else {
    models = call.service.repository.descriptions();
  }
  std::string text = R"({"model_stats":[)";
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i != 0) text += ',';
    append_statistics(text, *models[i]);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void repository_index(const RouteCall& call) {
  bool only_ready = false;
  const std::string_view body = call.request().body.text();
  if (!body.empty()) {
    for (const JsonInput& member : split_object(body)) {
      if (member.name != "ready" || (member.raw != "true" && member.raw != "false")) {
        throw Error(ErrorCode::invalid_input, "accepted is {\"ready\": true} or {\"ready\": false}");
      }
      only_ready = member.raw == "true";
    }
  }
  std::string text = "[";
  for (const ModelStatus& status : call.service.repository.index()) {
    if (only_ready && !is_serving(status.state)) continue;
    text += text.size() == 1 ? R"({"name":)" : R"(,{"name":)";
    append_json_string(text, status.name);
    text += R"(,"version":)";
    append_json_string(text, status.version);
    text += R"(,"state":)";
    append_json_string(text, repository_state(status.state));
    text += R"(,"reason":)";
    append_json_string(text, status.reason);
    text += '}';
  }
  call.exchange->respond(http::Response::json(200, text + "]"));
}

void answer_change(http::Exchange& exchange, const std::optional<Error>& error) {
  exchange.respond(error ? error_response(*error, Protocol::open_inference) : http::Response::json(200, "{}"));
}

void repository_load(const RouteCall& call) {
  const std::optional<std::string> config = read_config(call.request().body.text());
  const std::string name = name_for(call);
  ModelRepository& repository = call.service.repository;
  const std::shared_ptr<AuditedChange> change = audit(call, "load", name);
  audited(*change, [&] {
    repository.load(
        name, deadline_of(call.request()),
        [exchange = call.exchange, change, name, &repository](const std::optional<Error>& error) {
          answer_change(*exchange, change->end(error, repository.digest(name)));
        },
        config);
  });
}

void repository_unload(const RouteCall& call) {
  // No model of gpux depends on another.
  (void)read_parameter(call.request().body.text(), "unload_dependents");
  const std::string name = name_for(call);
  const std::shared_ptr<AuditedChange> change = audit(call, "unload", name);
  audited(*change, [&] {
    call.service.repository.unload(
        name, [exchange = call.exchange, change, digest = call.service.repository.digest(name)](
                  const std::optional<Error>& error) { answer_change(*exchange, change->end(error, digest)); });
  });
}

SharedRegions& regions_of(const RouteCall& call) {
  if (call.service.options.shared_regions == nullptr) {
    throw Error(ErrorCode::not_found, "shared memory is not served: gpux serve --shared-memory PREFIX serves it");
  }
  return *call.service.options.shared_regions;
}

void respond_regions(const RouteCall& call, const std::vector<SharedRegionPlace>& places) {
  std::string text = "[";
  for (const SharedRegionPlace& place : places) {
    text += text.size() == 1 ? R"({"name":)" : R"(,{"name":)";
    append_json_string(text, place.name);
    text += R"(,"key":)";
    append_json_string(text, place.key);
    text += fmt::format(R"(,"offset":{},"byte_size":{}}})", place.offset, place.byte_size);
  }
  call.exchange->respond(http::Response::json(200, text + "]"));
}

void region_status(const RouteCall& call) {
  const SharedRegions& regions = regions_of(call);
  respond_regions(call, call.id ? std::vector{regions.find(*call.id)->place()} : regions.all());
}

void register_region(const RouteCall& call) {
  const RequestJson body = parse_request(call.request().body.text(), {});
  Members members(body, "", region_fields(), call.work.member_rules);
  SharedRegionPlace place{.name = call.id.value_or(""), .key = members.text("key"), .offset = 0, .byte_size = 0};
  place.offset = members.whole("offset").value_or(0);
  place.byte_size = members.whole("byte_size").value_or(0);
  members.finish();
  regions_of(call).add(std::move(place));
  call.exchange->respond(http::Response::json(200, "{}"));
}

void unregister_region(const RouteCall& call) {
  SharedRegions& regions = regions_of(call);
  if (call.id) {
    regions.remove(*call.id);
  } else {
    regions.remove_all();
  }
  call.exchange->respond(http::Response::json(200, "{}"));
}

constexpr RouteContract by_readiness{.answering = Answering::by_readiness};
constexpr RouteContract infer_contract{.body = BodyKind::any,
                                       .answering = Answering::in_turn,
                                       .fields = infer_fields,
                                       .describe = describe_infer,
                                       .is_cacheable = true};
constexpr RouteContract repository_index_contract{.describe = describe_index};
constexpr RouteContract loading_contract{.answering = Answering::by_readiness, .describe = describe_loading};

constexpr std::array<Route, 14> table{{
    {"GET", "/v2", "Server metadata", RouteKey::any, Protocol::open_inference, server_metadata},
    {"GET", "/v2/health/live", "Whether the process answers", RouteKey::none, Protocol::open_inference, answer_live,
     by_readiness},
    {"GET", "/v2/health/ready", "Whether every model answers", RouteKey::none, Protocol::open_inference, answer_ready,
     by_readiness},
    // Before those with a name, as this is none.
    {"GET", "/v2/models/stats", "Counters of every model", RouteKey::any, Protocol::open_inference, statistics},
    {"GET", "/v2/models/{name}", "Model metadata", RouteKey::any, Protocol::open_inference, model_metadata},
    {"GET", "/v2/models/{name}/versions/{version}", "Model metadata", RouteKey::any, Protocol::open_inference,
     model_metadata},
    {"GET", "/v2/models/{name}/config", "Model configuration", RouteKey::any, Protocol::open_inference, config},
    {"GET", "/v2/models/{name}/versions/{version}/config", "Model configuration", RouteKey::any,
     Protocol::open_inference, config},
    {"GET", "/v2/models/{name}/ready", "Whether the model answers", RouteKey::none, Protocol::open_inference,
     model_ready, by_readiness},
    {"GET", "/v2/models/{name}/versions/{version}/ready", "Whether the model answers", RouteKey::none,
     Protocol::open_inference, model_ready, by_readiness},
    {"POST", "/v2/models/{name}/infer", "Run a model", RouteKey::any, Protocol::open_inference, infer, infer_contract},
    {"POST", "/v2/models/{name}/versions/{version}/infer", "Run a model", RouteKey::any, Protocol::open_inference,
     infer, infer_contract},
    {"GET", "/v2/models/{name}/stats", "Counters of a model", RouteKey::any, Protocol::open_inference, statistics},
    {"GET", "/v2/models/{name}/versions/{version}/stats", "Counters of a model", RouteKey::any,
     Protocol::open_inference, statistics},
}};

constexpr RouteContract region_contract{.fields = region_fields, .describe = describe_registration};
constexpr RouteContract regions_contract{.describe = describe_regions};
constexpr RouteContract unregister_contract{.describe = describe_loading};

constexpr std::array<Route, 5> region_table{{
    {"GET", "/v2/systemsharedmemory/status", "The regions of shared memory", RouteKey::any, Protocol::open_inference,
     region_status, regions_contract},
    {"GET", "/v2/systemsharedmemory/region/{id}/status", "A region of shared memory", RouteKey::any,
     Protocol::open_inference, region_status, regions_contract},
    {"POST", "/v2/systemsharedmemory/region/{id}/register", "Register a region of shared memory", RouteKey::any,
     Protocol::open_inference, register_region, region_contract},
    {"POST", "/v2/systemsharedmemory/region/{id}/unregister", "Forget a region of shared memory", RouteKey::any,
     Protocol::open_inference, unregister_region, unregister_contract},
    {"POST", "/v2/systemsharedmemory/unregister", "Forget all regions of shared memory", RouteKey::any,
     Protocol::open_inference, unregister_region, unregister_contract},
}};

constexpr std::array<Route, 3> repository_table{{
    {"POST", "/v2/repository/index", "The known models, loaded or not", RouteKey::any, Protocol::open_inference,
     repository_index, repository_index_contract},
    {"POST", "/v2/repository/models/{name}/load", "Load or reload a model", RouteKey::admin, Protocol::open_inference,
     repository_load, loading_contract},
    {"POST", "/v2/repository/models/{name}/unload", "Take a model out of service", RouteKey::admin,
     Protocol::open_inference, repository_unload, loading_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

std::span<const Route> region_routes() noexcept {
  return region_table;
}

std::span<const Route> repository_routes() noexcept {
  return repository_table;
}

}  // namespace gpux::server::open_inference_v2
