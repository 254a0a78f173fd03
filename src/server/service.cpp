#include "server/service.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "runtime/json_items.h"
#include "server/metrics.h"
#include "server/open_inference.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

enum class Protocol : std::uint8_t { own, open_inference };

int status_of(ErrorCode code, Protocol protocol) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_input:
      return 400;
    case ErrorCode::invalid_model:
      return 422;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::resource_exhausted:
      return protocol == Protocol::open_inference ? 503 : 429;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::network:
      return 502;
    case ErrorCode::permission:
      return 403;
    case ErrorCode::provider_unavailable:
    case ErrorCode::interrupted:
      return 503;
    case ErrorCode::internal:
    case ErrorCode::storage:
      break;
  }
  return 500;
}

http::Response error_response(const Error& error, Protocol protocol) {
  const int status = status_of(error.code(), protocol);
  std::string text = protocol == Protocol::open_inference ? R"({"error":)" : R"({"detail":)";
  append_json_string(text, error.message());
  text += '}';
  http::Response response = http::Response::json(status, std::move(text));
  if (error.code() == ErrorCode::resource_exhausted) response.headers.add("Retry-After", "1");
  return response;
}

std::string milliseconds(std::chrono::nanoseconds duration) {
  return fmt::format("{:.3f}", std::chrono::duration<double, std::milli>(duration).count());
}

void add_times(http::Response& response, const runtime::InferTimes& times, Clock::time_point arrived) {
  response.headers.add("X-Queue-Time", milliseconds(times.queue));
  response.headers.add("X-Inference-Time", milliseconds(times.compute));
  response.headers.add("X-Total-Time", milliseconds(Clock::now() - arrived));
}

// Compares all of both, so that the time taken does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (a[i] ^ (b.empty() ? '\0' : b[i % b.size()])));
  }
  return differs == 0;
}

constexpr const char* timeout_header = "X-Request-Timeout-Ms";

std::optional<Clock::time_point> deadline_of(const http::Request& request) {
  const auto text = request.headers.find(timeout_header);
  if (!text) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc() || end != text->data() + text->size() || value == 0) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("{} is not a number of milliseconds from 1 to 4294967295", timeout_header));
  }
  return request.arrived + std::chrono::milliseconds(value);
}

// A sum to which the answers of several requests come in any order.
struct Gathering {
  std::mutex mutex;
  std::vector<NamedValues> results;
  std::size_t missing = 0;
  bool answered = false;
  std::vector<runtime::Scheduler::Ticket> tickets;
  runtime::InferTimes slowest;
};

}  // namespace

struct Service::Call {
  const std::shared_ptr<http::Exchange>& exchange;
  std::map<std::string_view, std::string> captures;  // "name", "version"
  Protocol protocol;

  [[nodiscard]] const http::Request& request() const { return exchange->request(); }
};

struct Service::Route {
  RouteInfo info;
  Protocol protocol;
  void (Service::*handler)(const Call&);
};

const Service::Route Service::routes_[] = {
    {{"POST", "/predict", "Run a model", true}, Protocol::own, &Service::predict},
    {{"POST", "/models/{name}/predict", "Run a model", true}, Protocol::own, &Service::predict},
    {{"GET", "/health", "Whether the server is healthy", false}, Protocol::own, &Service::health},
    {{"GET", "/health/live", "Whether the process answers", false}, Protocol::own, &Service::live},
    {{"GET", "/health/ready", "Whether every model answers", false}, Protocol::own, &Service::ready},
    {{"GET", "/models/{name}/health/ready", "Whether the model answers", false}, Protocol::own, &Service::ready},
    {{"GET", "/info", "What the model takes and gives, and where it runs", true}, Protocol::own, &Service::info},
    {{"GET", "/models/{name}/info", "What the model takes and gives, and where it runs", true},
     Protocol::own,
     &Service::info},
    {{"GET", "/models", "The models served", true}, Protocol::own, &Service::list},
    {{"GET", "/metrics", "Counters, as Prometheus reads them", false}, Protocol::own, &Service::metrics},
    {{"GET", "/v2", "Server metadata", true}, Protocol::open_inference, &Service::open_inference_metadata},
    {{"GET", "/v2/health/live", "Whether the process answers", false}, Protocol::open_inference, &Service::live},
    {{"GET", "/v2/health/ready", "Whether every model answers", false}, Protocol::open_inference, &Service::ready},
    {{"GET", "/v2/models/{name}", "Model metadata", true}, Protocol::open_inference, &Service::open_inference_model},
    {{"GET", "/v2/models/{name}/versions/{version}", "Model metadata", true},
     Protocol::open_inference,
     &Service::open_inference_model},
    {{"GET", "/v2/models/{name}/ready", "Whether the model answers", false},
     Protocol::open_inference,
     &Service::open_inference_ready},
    {{"GET", "/v2/models/{name}/versions/{version}/ready", "Whether the model answers", false},
     Protocol::open_inference,
     &Service::open_inference_ready},
    {{"POST", "/v2/models/{name}/infer", "Run a model", true},
     Protocol::open_inference,
     &Service::open_inference_infer},
    {{"POST", "/v2/models/{name}/versions/{version}/infer", "Run a model", true},
     Protocol::open_inference,
     &Service::open_inference_infer},
    {{"GET", "/v2/models/stats", "Counters of every model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
    {{"GET", "/v2/models/{name}/stats", "Counters of a model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
    {{"GET", "/v2/models/{name}/versions/{version}/stats", "Counters of a model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
};

namespace {

// Fills the captures where the pattern fits.
bool fits(std::string_view pattern, const std::vector<std::string>& segments,
          std::map<std::string_view, std::string>& captures) {
  captures.clear();
  std::size_t index = 0;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    const std::string_view part = pattern.substr(0, end);
    pattern.remove_prefix(end);
    if (index == segments.size()) return false;
    if (part.starts_with('{')) {
      captures[part.substr(1, part.size() - 2)] = segments[index];
    } else if (part != segments[index]) {
      return false;
    }
    ++index;
  }
  return index == segments.size();
}

}  // namespace

Service::Service(std::vector<std::shared_ptr<ServedModel>> models, ServiceOptions options)
    : models_(std::move(models)), options_(std::move(options)) {}

Service::~Service() = default;

std::span<const RouteInfo> Service::routes() noexcept {
  static const std::vector<RouteInfo> infos = [] {
    std::vector<RouteInfo> all;
    for (const Route& route : routes_) all.push_back(route.info);
    return all;
  }();
  return infos;
}

bool Service::has_key(const http::Request& request) const {
  if (options_.api_keys.empty()) return true;
  constexpr std::string_view scheme = "bearer ";
  std::string_view given = request.headers["Authorization"];
  if (given.size() > scheme.size() && lower(std::string(given.substr(0, scheme.size()))) == scheme) {
    given.remove_prefix(scheme.size());
  } else {
    given = request.headers["X-API-Key"];
  }
  bool found = false;
  for (const std::string& key : options_.api_keys) found |= equal_in_constant_time(given, key);
  return found;
}

void Service::handle(const std::shared_ptr<http::Exchange>& exchange) {
  std::vector<std::string> segments = exchange->request().segments();
  if (!segments.empty() && segments.back().empty()) segments.pop_back();
  const Protocol protocol = !segments.empty() && segments.front() == "v2" ? Protocol::open_inference : Protocol::own;
  try {
    dispatch(exchange, segments);
  } catch (const Error& error) {
    exchange->respond(error_response(error, protocol));
  }
}

void Service::dispatch(const std::shared_ptr<http::Exchange>& exchange, const std::vector<std::string>& segments) {
  const http::Request& request = exchange->request();
  std::vector<std::string> allowed;
  Call call{exchange, {}, Protocol::own};
  for (const Route& route : routes_) {
    if (!fits(route.info.path, segments, call.captures)) continue;
    if (route.info.method != request.method) {
      allowed.emplace_back(route.info.method);
      continue;
    }
    if (route.info.needs_key && !has_key(request)) {
      http::Response response = error_response(Error(ErrorCode::permission, "an API key is needed"), route.protocol);
      response.status = 401;
      response.headers.add("WWW-Authenticate", "Bearer");
      exchange->respond(std::move(response));
      return;
    }
    call.protocol = route.protocol;
    (this->*route.handler)(call);
    return;
  }
  if (!allowed.empty()) {
    http::Response response = http::Response::error(405, fmt::format("accepted here: {}", join(allowed)));
    response.headers.add("Allow", join(allowed));
    exchange->respond(std::move(response));
    return;
  }
  throw Error(ErrorCode::not_found, "there is no such route");
}

const std::shared_ptr<ServedModel>& Service::model_for(const Call& call) const {
  std::vector<std::string> names;
  for (const auto& model : models_) names.push_back(model->name());
  const auto given = call.captures.find("name");
  std::string name = given == call.captures.end() ? options_.default_model : given->second;
  if (name.empty() && models_.size() == 1) return models_.front();
  if (name.empty()) {
    throw Error(ErrorCode::usage, fmt::format("there are several models, name one: {}", join(names)));
  }
  for (const auto& model : models_) {
    if (model->name() != name) continue;
    const auto version = call.captures.find("version");
    if (version != call.captures.end() && version->second != model->version()) {
      throw Error(ErrorCode::not_found, fmt::format("model '{}' has no version '{}'; there is {}", name,
                                                    version->second.substr(0, 40), model->version()));
    }
    return model;
  }
  throw Error(ErrorCode::not_found, fmt::format("there is no model '{}'; models: {}", name.substr(0, 80), join(names)));
}

void Service::predict(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_for(call);
  const std::shared_ptr<http::Exchange> exchange = call.exchange;
  const http::Request& request = call.request();
  const std::optional<Clock::time_point> deadline = deadline_of(request);
  runtime::Items items;
  try {
    items = runtime::read_json_items(request.body.text(), model->signature());
  } catch (const Error& error) {
    model->statistics().count(error);
    throw;
  }
  auto gathering = std::make_shared<Gathering>();
  gathering->results.resize(items.items.size());
  gathering->missing = items.items.size();
  const auto answer = [exchange, model, gathering, is_list = items.is_list, arrived = request.arrived] {
    try {
      http::Response response = http::Response::json(
          200, runtime::results_json(gathering->results, is_list, model->project(), NonFinite::null));
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
  const auto fail = [exchange, model, gathering](const Error& error) {
    std::vector<runtime::Scheduler::Ticket> tickets;
    {
      const std::lock_guard lock(gathering->mutex);
      if (gathering->answered) return;
      gathering->answered = true;
      tickets.swap(gathering->tickets);
    }
    exchange->respond(error_response(error, Protocol::own));
    for (const auto ticket : tickets) model->scheduler().cancel(ticket);
  };
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    const auto within = [i, is_list = items.is_list](const Error& error) {
      return is_list ? error.within(fmt::format("item {}", i)) : error;
    };
    try {
      const auto ticket = model->submit({.inputs = std::move(items.items[i]),
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
                                            if (result.times.compute >= gathering->slowest.compute)
                                              gathering->slowest = result.times;
                                            if (--gathering->missing != 0 || gathering->answered) return;
                                            gathering->answered = true;
                                          }
                                          answer();
                                        });
      const std::lock_guard lock(gathering->mutex);
      if (gathering->answered) {
        model->scheduler().cancel(ticket);
        return;
      }
      gathering->tickets.push_back(ticket);
    } catch (const Error& error) {
      fail(within(error));
      return;
    }
  }
  exchange->on_gone([model, gathering] {
    std::vector<runtime::Scheduler::Ticket> tickets;
    {
      const std::lock_guard lock(gathering->mutex);
      tickets.swap(gathering->tickets);
    }
    for (const auto ticket : tickets) model->scheduler().cancel(ticket);
  });
}

void Service::open_inference_infer(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_for(call);
  const std::shared_ptr<http::Exchange> exchange = call.exchange;
  const http::Request& request = call.request();
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
  std::optional<Clock::time_point> deadline = deadline_of(request);
  try {
    asked = std::make_shared<InferCall>(read_infer_call(request.body, json_bytes, model->signature()));
  } catch (const Error& error) {
    model->statistics().count(error);
    throw;
  }
  if (const std::optional<std::chrono::microseconds> timeout = asked->timeout) {
    const auto until = request.arrived + *timeout;
    deadline = deadline ? std::min(*deadline, until) : until;
  }
  std::vector<std::string> outputs;
  for (const RequestedOutput& output : asked->outputs) outputs.push_back(output.name);
  const auto ticket = model->submit({.inputs = std::move(asked->inputs),
                                     .outputs = std::move(outputs),
                                     .priority = asked->priority,
                                     .deadline = deadline,
                                     .arrived = request.arrived},
                                    [exchange, model, asked, arrived = request.arrived](runtime::InferAnswer&& result) {
                                      try {
                                        if (result.error) throw Error(*result.error);
                                        http::Response response =
                                            write_infer_response({.model_name = model->name(),
                                                                  .model_version = model->version(),
                                                                  .call = *asked,
                                                                  .outputs = result.outputs,
                                                                  .project = model->project()});
                                        add_times(response, result.times, arrived);
                                        exchange->respond(std::move(response));
                                      } catch (const Error& error) {
                                        exchange->respond(error_response(error, Protocol::open_inference));
                                      }
                                    });
  exchange->on_gone([model, ticket] { model->scheduler().cancel(ticket); });
}

namespace {

// Asks the model for a tiny inference ahead of its queue, or takes a late success for one; `done` gets whether it
// answers, on some thread.
void probe(const std::shared_ptr<ServedModel>& model, const ServiceOptions& options, std::function<void(bool)> done) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point last{std::chrono::nanoseconds(model->statistics().last_success.load())};
  if (last.time_since_epoch().count() != 0 && now - last < options.probe_after) {
    done(true);
    return;
  }
  try {
    runtime::InferRequest request{.inputs = synthetic_inputs(model->signature()),
                                  .outputs = {},
                                  .priority = 0,
                                  .deadline = now + options.probe_timeout};
    for (std::size_t i = 0; i < model->signature().outputs.size(); ++i) request.outputs.push_back(i);
    model->scheduler().submit_first(std::move(request), [model, done](runtime::InferAnswer&& answer) {
      // Made-up values may be refused by the model; the device has answered all the same.
      const bool answered = !answer.error || answer.error->code() == ErrorCode::invalid_input;
      if (answered) model->statistics().last_success = Clock::now().time_since_epoch().count();
      done(answered);
    });
  } catch (const Error&) {
    done(false);
  }
}

void respond_readiness(const std::shared_ptr<http::Exchange>& exchange, bool ready, const std::string& not_ready) {
  std::string text = R"({"ready":)";
  text += ready ? "true" : "false";
  text += R"(,"live":true)";
  if (!ready) {
    text += R"(,"not_ready":)";
    append_json_string(text, not_ready);
  }
  exchange->respond(http::Response::json(ready ? 200 : 503, text + "}"));
}

void probe_all(const std::vector<std::shared_ptr<ServedModel>>& models, const ServiceOptions& options,
               const std::shared_ptr<http::Exchange>& exchange) {
  struct Round {
    std::mutex mutex;
    std::size_t missing = 0;
    std::string failed;
  };

  auto round = std::make_shared<Round>();
  round->missing = models.size();
  for (const auto& model : models) {
    probe(model, options, [round, exchange, name = model->name()](bool answered) {
      std::string failed;
      {
        const std::lock_guard lock(round->mutex);
        if (!answered) round->failed += (round->failed.empty() ? "" : ", ") + name;
        if (--round->missing != 0) return;
        failed = round->failed;
      }
      respond_readiness(exchange, failed.empty(), failed);
    });
  }
}

void append_model_info(std::string& out, const ServedModel& model) {
  const ModelInfo& info = model.runtime().info();
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
  append_json_string(out, model.name());
  out += R"(,"version":)";
  append_json_string(out, model.version());
  out += fmt::format(R"(,"format":"onnx","size_bytes":{},"size_mb":{:.2f},"inputs":)", info.size_bytes,
                     static_cast<double>(info.size_bytes) / 1e6);
  values(info.signature.inputs);
  out += R"(,"outputs":)";
  values(info.signature.outputs);
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
  const Verdict& verdict = model.runtime().verdict();
  append_json_string(out, verdict.active.empty() ? "" : verdict.active.front());
  out += R"(,"verdict":)";
  append_json_string(out, to_line(verdict));
  out += fmt::format(R"(,"batching":{},"max_batch_size":{},"max_queue":{}}})", model.can_batch(),
                     model.can_batch() ? model.options().max_batch_size : 1, model.options().max_queue);
}

void append_duration(std::string& out, std::string_view name, const Histogram& histogram) {
  out += fmt::format(R"("{}":{{"count":{},"ns":{}}})", name, histogram.count(), histogram.sum().count());
}

// Milliseconds since 1970, as the protocol has it; 0 where nothing succeeded yet.
std::int64_t epoch_milliseconds(std::int64_t steady_nanoseconds) {
  if (steady_nanoseconds == 0) return 0;
  const auto ago = Clock::now() - Clock::time_point(std::chrono::nanoseconds(steady_nanoseconds));
  const auto then = std::chrono::system_clock::now() - ago;
  return std::chrono::duration_cast<std::chrono::milliseconds>(then.time_since_epoch()).count();
}

void append_statistics(std::string& out, ServedModel& model) {
  const ModelStatistics& counts = model.statistics();
  out += R"({"name":)";
  append_json_string(out, model.name());
  out += R"(,"version":)";
  append_json_string(out, model.version());
  const auto failed = counts.rejected + counts.cancelled + counts.expired + counts.invalid + counts.failed;
  out += fmt::format(
      R"(,"last_inference":{},"inference_count":{},"execution_count":{},"inference_stats":{{"success":{{"count":{},"ns":{}}},"fail":{{"count":{},"ns":0}},)",
      epoch_milliseconds(counts.last_success), counts.rows.load(), model.scheduler().counts().runs,
      counts.succeeded.load(), counts.total.sum().count(), failed);
  append_duration(out, "queue", counts.queue);
  out += ',';
  append_duration(out, "compute_input", counts.input);
  out += ',';
  append_duration(out, "compute_infer", counts.compute);
  out += ',';
  append_duration(out, "compute_output", counts.output);
  out += R"(},"batch_stats":[]})";
}

}  // namespace

void Service::health(const Call& call) {
  std::string text = R"({"status":"healthy","model":)";
  append_json_string(text, models_.size() == 1 ? models_.front()->name() : options_.default_model);
  text += R"(,"models":[)";
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (i != 0) text += ',';
    append_json_string(text, models_[i]->name());
  }
  text += fmt::format(R"(],"uptime_seconds":{:.1f}}})", std::chrono::duration<double>(Clock::now() - started_).count());
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void Service::live(const Call& call) {
  call.exchange->respond(http::Response::json(200, R"({"live":true})"));
}

void Service::ready(const Call& call) {
  if (!ready_) {
    respond_readiness(call.exchange, false, "the server is shutting down");
    return;
  }
  if (call.captures.contains("name")) {
    probe_all({model_for(call)}, options_, call.exchange);
  } else {
    probe_all(models_, options_, call.exchange);
  }
}

void Service::info(const Call& call) {
  std::string text;
  append_model_info(text, *model_for(call));
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void Service::list(const Call& call) {
  std::string text = R"({"models":[)";
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (i != 0) text += ',';
    append_model_info(text, *models_[i]);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void Service::metrics(const Call& call) {
  http::Response response;
  response.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.text = prometheus_text(models_, counters_ ? counters_() : http::Counters{});
  call.exchange->respond(std::move(response));
}

void Service::open_inference_metadata(const Call& call) {
  std::string text = R"({"name":"gpux","version":)";
  append_json_string(text, gpux::version());
  text += R"(,"extensions":["binary_tensor_data","classification","schedule_policy","statistics"]})";
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void Service::open_inference_model(const Call& call) {
  const ServedModel& model = *model_for(call);
  std::string text = R"({"name":)";
  append_json_string(text, model.name());
  text += R"(,"versions":[)";
  append_json_string(text, model.version());
  text += R"(],"platform":"onnx_onnxv1","inputs":[)";
  const auto values = [&](const std::vector<SignatureEntry>& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) text += ',';
      append_metadata_tensor(text, entries[i]);
    }
  };
  values(model.signature().inputs);
  text += R"(],"outputs":[)";
  values(model.signature().outputs);
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void Service::open_inference_ready(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_for(call);
  if (!ready_) {
    respond_readiness(call.exchange, false, "the server is shutting down");
    return;
  }
  probe(model, options_, [exchange = call.exchange, model](bool answered) {
    std::string text = R"({"name":)";
    append_json_string(text, model->name());
    text += fmt::format(R"(,"ready":{}}})", answered);
    exchange->respond(http::Response::json(answered ? 200 : 503, std::move(text)));
  });
}

void Service::open_inference_statistics(const Call& call) {
  std::string text = R"({"model_stats":[)";
  if (call.captures.contains("name")) {
    append_statistics(text, *model_for(call));
  } else {
    for (std::size_t i = 0; i < models_.size(); ++i) {
      if (i != 0) text += ',';
      append_statistics(text, *models_[i]);
    }
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

}  // namespace gpux::server
