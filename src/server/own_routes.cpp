#include <algorithm>
#include <mutex>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8.h"
#include "gpux/provider_manager.h"
#include "runtime/json_items.h"
#include "server/health_report.h"
#include "server/http/form.h"
#include "server/metrics.h"
#include "server/openapi.h"
#include "server/probe.h"
#include "server/service_call.h"
#include "server/text_job.h"
#include "server/text_requests.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

/// The routes of gpux's own protocol.
namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// A sum to which the answers of several requests come in any order.
struct Gathering {
  std::mutex mutex;
  std::vector<NamedValues> results;
  std::size_t missing = 0;
  bool answered = false;
  std::vector<Pending> pending;
  runtime::InferTimes slowest;
};

// The keys of text-embeddings-inference's /info that are not among gpux's own.
void append_encoder_info(std::string& out, const ModelDescription& model) {
  const EncoderDescription& encoder = *model.encoder;
  out += R"(,"model_id":)";
  append_json_string(out, model.name);
  out += R"(,"served_model_name":)";
  append_json_string(out, model.name);
  out += fmt::format(R"(,"model_type":{{"embedding":{{"pooling":"{}"}}}})", encoder.pooling);
  out += fmt::format(R"(,"dimension":{},"max_input_length":{},"max_client_batch_size":{},"auto_truncate":true)",
                     encoder.dimension, encoder.max_tokens, most_texts);
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

void append_model_info(std::string& out, const ModelDescription& model) {
  const ModelInfo& info = model.info;
  const auto values = [&](const std::vector<SignatureEntry>& entries) {
    out += '[';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const SignatureEntry& entry = entries[i];
      out += i == 0 ? R"({"name":)" : R"(,{"name":)";
      append_json_string(out, entry.name);
      out += R"(,"type":)";
      append_json_string(out, entry.type.kind == ValueKind::tensor ? std::string(to_string(entry.type.element))
                                                                   : to_string(entry.type));
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
  };
  out += R"({"name":)";
  append_json_string(out, model.name);
  out += R"(,"version":)";
  append_json_string(out, model.version);
  out += fmt::format(R"(,"format":"onnx","size_bytes":{},"size_mb":{:.2f},"inputs":)", info.size_bytes,
                     static_cast<double>(info.size_bytes) / 1e6);
  values(model.signature.inputs);
  out += R"(,"outputs":)";
  values(model.signature.outputs);
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
  if (model.encoder) append_encoder_info(out, model);
  out += '}';
}

// Whether a body of these names could be meant for the model.
bool fits_inputs(const Signature& signature, const std::vector<std::string>& given) {
  const auto has = [&](const SignatureEntry& entry) {
    return std::find(given.begin(), given.end(), entry.name) != given.end();
  };
  const auto known = std::count_if(signature.inputs.begin(), signature.inputs.end(), has);
  return static_cast<std::size_t>(known) == given.size() &&
         std::all_of(signature.inputs.begin(), signature.inputs.end(),
                     [&](const SignatureEntry& entry) { return !entry.required || has(entry); });
}

// Of several models the only one that takes the inputs that a body names; empty where there is none such.
std::string fitting_model(std::string_view body, const std::vector<std::shared_ptr<const ModelDescription>>& models) {
  std::vector<std::string> given;
  try {
    std::string_view object = body;
    if (is_array(body)) {
      const auto items = split_array(body);
      if (items.empty()) return {};
      object = items.front();
    }
    for (const JsonInput& member : split_object(object)) given.push_back(member.name);
  } catch (const Error&) {
    return {};
  }
  std::string found;
  for (const auto& model : models) {
    if (model->name == found || !fits_inputs(model->signature, given)) continue;
    if (!found.empty()) return {};
    found = model->name;
  }
  return found;
}

// The pictures of a form's fields, each named as the input or "file".
std::vector<std::string> pictures_of(const http::Request& request, const runtime::PictureInput& picture) {
  std::vector<std::string> pictures;
  for (const http::FormPart& part : http::read_form(request.body.text(), request.headers["Content-Type"])) {
    if (part.name != picture.name && part.name != "file") {
      throw Error(ErrorCode::invalid_input, fmt::format("the form has a field '{}'; accepted: '{}' or 'file', pictures",
                                                        part.name, picture.name));
    }
    pictures.emplace_back(part.content);
  }
  return pictures;
}

bool is_plain_text(const http::Request& request) {
  const std::string type = lower(request.headers["Content-Type"]);
  return type == "text/plain" || type.starts_with("text/plain;") || type.starts_with("text/plain ");
}

// The whole body is the text.
runtime::Items read_plain_text(const http::Request& request, const ServedModel& model) {
  const std::string type = lower(request.headers["Content-Type"]);
  if (type.find("charset=") != std::string::npos && type.find("utf-8") == std::string::npos) {
    throw Error(ErrorCode::invalid_input, fmt::format("Content-Type is '{}'; accepted: text in UTF-8", type));
  }
  const auto& inputs = model.signature().inputs;
  const auto entry = std::find_if(inputs.begin(), inputs.end(), [](const SignatureEntry& input) {
    return input.type.kind == ValueKind::tensor && input.type.element == ElementType::string;
  });
  if (entry == inputs.end()) {
    throw Error(ErrorCode::invalid_input, fmt::format("the body is a text, and '{}' takes no texts", model.name()));
  }
  require_utf8(request.body.text());
  return {{{{entry->name, Tensor::of_strings({1}, {std::string(request.body.text())})}}}, false};
}

// JSON, a text, a picture itself, or a form with pictures.
runtime::Items read_items(const http::Request& request, const ServedModel& model) {
  if (is_plain_text(request)) return read_plain_text(request, model);
  const bool is_form = http::is_form(request.headers["Content-Type"]);
  if (!is_form && !lower(request.headers["Content-Type"]).starts_with("image/")) {
    return runtime::read_json_items(request.body.text(), model.signature(), model.picture());
  }
  if (model.picture() == nullptr) {
    throw Error(ErrorCode::invalid_input, fmt::format("the body is {}, and '{}' takes no pictures",
                                                      is_form ? "a form" : "a picture", model.name()));
  }
  runtime::PictureInput picture = *model.picture();
  picture.sources = {.base64 = false, .data_url = false};
  Tensor tensor = is_form ? runtime::read_pictures(picture, pictures_of(request, picture))
                          : image::read_picture(request.body.text(), picture.recipe, picture.sources);
  return {{{{picture.name, std::move(tensor)}}}, false};
}

void predict_with(const std::shared_ptr<http::Exchange>& exchange, const std::shared_ptr<ServedModel>& model) {
  const http::Request& request = exchange->request();
  const std::optional<Clock::time_point> deadline = deadline_of(request);
  runtime::Items items;
  try {
    items = read_items(request, *model);
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  auto gathering = std::make_shared<Gathering>();
  gathering->results.resize(items.items.size());
  gathering->missing = items.items.size();
  const auto answer = [exchange, model, gathering, is_list = items.is_list, arrived = request.arrived] {
    try {
      http::Response response = http::Response::json(
          200, runtime::results_json(gathering->results, is_list, model->declared_outputs(), NonFinite::null));
      add_times(response, gathering->slowest, arrived);
      exchange->respond(std::move(response));
    } catch (const Error& error) {
      exchange->respond(error_response(error, Protocol::own));
    }
  };
  if (items.items.empty()) {
    answer();
    return;
  }
  // All of a list, or nothing: the first failure is the answer, and the rest is dropped.
  const auto fail = [exchange, gathering](const Error& error) {
    std::vector<Pending> pending;
    {
      const std::lock_guard lock(gathering->mutex);
      if (gathering->answered) return;
      gathering->answered = true;
      pending.swap(gathering->pending);
    }
    exchange->respond(error_response(error, Protocol::own));
    for (const Pending& one : pending) one.cancel();
  };
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    const auto within = [i, is_list = items.is_list](const Error& error) {
      return is_list ? error.within(fmt::format("item {}", i)) : error;
    };
    try {
      const Pending pending = submit(
          model,
          {.inputs = std::move(items.items[i]),
           .outputs = {},
           .priority = 0,
           .deadline = deadline,
           .arrived = request.arrived},
          [gathering, answer, fail, within, i](runtime::InferAnswer&& result) {
            if (result.error) {
              fail(within(*result.error));
              return;
            }
            {
              const std::lock_guard lock(gathering->mutex);
              gathering->results[i] = std::move(result.outputs);
              if (result.times.compute >= gathering->slowest.compute) gathering->slowest = result.times;
              if (--gathering->missing != 0 || gathering->answered) return;
              gathering->answered = true;
            }
            answer();
          },
          // A list's items may share runs.
          items.items.size() == 1 ? runtime::Here::allowed : runtime::Here::no);
      if (!pending) return;  // the only one, and answered
      {
        const std::lock_guard lock(gathering->mutex);
        if (!gathering->answered) {
          gathering->pending.push_back(pending);
          continue;
        }
      }
      pending.cancel();
      return;
    } catch (const Error& error) {
      fail(within(error));
      return;
    }
  }
  exchange->on_gone([gathering] {
    std::vector<Pending> pending;
    {
      const std::lock_guard lock(gathering->mutex);
      pending.swap(gathering->pending);
    }
    for (const Pending& one : pending) one.cancel();
  });
}

}  // namespace

void respond_readiness(http::Exchange& exchange, bool ready, const std::string& not_ready) {
  std::string text = fmt::format(R"({{"ready":{},"live":true)", ready);
  if (!ready) {
    text += R"(,"not_ready":)";
    append_json_string(text, not_ready);
  }
  exchange.respond(http::Response::json(ready ? 200 : 503, text + "}"));
}

void Service::predict(const Call& call) {
  Call named = call;
  if (!call.name && options_.default_model.empty() && repository_.names().size() > 1) {
    const std::string fitting = fitting_model(call.request().body.text(), repository_.descriptions());
    if (!fitting.empty()) named.name = fitting;
  }
  with_model(named, [](const Call& with, const std::shared_ptr<ServedModel>& model) {
    if (!is_plain_text(with.request()) && is_for_classifier(*model, with.request().body.text())) {
      classify(with.exchange, model);
    } else {
      predict_with(with.exchange, model);
    }
  });
}

void Service::health(const Call& call) {
  const std::vector<std::string> names = repository_.names();
  const HealthReport report = health_of(repository_.index(), ready_);
  std::string text = R"({"status":")";
  text += name_of(report.health);
  text += R"(","model":)";
  append_json_string(text, names.size() == 1 ? names.front() : options_.default_model);
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
  text +=
      fmt::format(R"(}},"uptime_seconds":{:.1f}}})", std::chrono::duration<double>(Clock::now() - started_).count());
  call.exchange->respond(http::Response::json(report.health == Health::unhealthy ? 503 : 200, std::move(text)));
}

void Service::live(const Call& call) {
  call.exchange->respond(http::Response::json(200, R"({"live":true})"));
}

void Service::ready(const Call& call) {
  if (!ready_) {
    respond_readiness(*call.exchange, false, "the server is shutting down");
    return;
  }
  const ProbeLimits limits{options_.probe_timeout, options_.probe_after};
  const auto respond = [exchange = call.exchange](const std::string& failed) {
    respond_readiness(*exchange, failed.empty(), failed);
  };
  if (call.name) {
    probe(repository_, *call.name, call.version.value_or(""), limits,
          [respond, name = *call.name](bool answered) { respond(answered ? "" : name); });
  } else {
    probe_all(repository_, limits, respond);
  }
}

void Service::info(const Call& call) {
  std::string text;
  append_model_info(text, *repository_.description(name_for(call), call.version.value_or("")));
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void Service::list(const Call& call) {
  const auto models = repository_.descriptions();
  std::string text = R"({"models":[)";
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i != 0) text += ',';
    append_model_info(text, *models[i]);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void Service::metrics(const Call& call) {
  const bool json = prefers_json(call.request().headers["Accept"]);
  const auto render = [&] {
    const auto models = repository_.models();
    const TransportCounts transport{counters_ ? counters_() : http::Counters{}, grpc_counts_};
    return json ? json_metrics(models, transport) : prometheus_text(models, transport);
  };
  http::Response response;
  response.headers.add("Content-Type", json ? "application/json" : "text/plain; version=0.0.4; charset=utf-8");
  response.pieces.push_back((json ? metrics_json_ : metrics_text_).not_before(call.request().received, render));
  call.exchange->respond(std::move(response));
}

void Service::openapi(const Call& call) {
  call.exchange->respond(http::Response::json(
      200, openapi_json(repository_.models(), options_.default_model, routes(), !options_.api_keys.empty())));
}

void Service::docs(const Call& call) {
  http::Response response;
  response.headers.add("Content-Type", "text/html; charset=utf-8");
  response.text = openapi_page(repository_.models(), options_.default_model, routes(), !options_.api_keys.empty());
  call.exchange->respond(std::move(response));
}

}  // namespace gpux::server
