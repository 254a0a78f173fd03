#include "server/service.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/log.h"
#include "base/spelling.h"
#include "server/api_keys.h"
#include "server/request_trace.h"
#include "server/service_call.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// "12.345": of whole microseconds, which costs a fraction of what a double does.
std::string milliseconds(std::chrono::nanoseconds duration) {
  const std::int64_t microseconds = std::max<std::int64_t>((duration.count() + 500) / 1000, 0);
  const fmt::format_int whole(microseconds / 1000);
  const auto fraction = static_cast<int>(microseconds % 1000);
  std::string text(whole.data(), whole.size());
  text += '.';
  for (const int place : {100, 10, 1}) text += static_cast<char>('0' + fraction / place % 10);
  return text;
}

constexpr std::size_t max_segments = 8;

// Of requests that need no key or no body: some clients send "{}".
constexpr std::uint64_t small_body_bytes = 4 << 10;

// The path cut at its slashes. Decoded only where there is something to decode: most paths are plain.
class Segments {
 public:
  explicit Segments(const http::Request& request) {
    std::string_view path = request.target;
    path = path.substr(0, path.find('?'));
    if (path.find('%') != std::string_view::npos) {
      decoded_ = request.segments();
      for (const std::string& segment : decoded_) add(segment);
    } else {
      while (!path.empty()) {
        if (path.front() == '/') path.remove_prefix(1);
        const std::size_t end = std::min(path.find('/'), path.size());
        add(path.substr(0, end));
        path.remove_prefix(end);
      }
    }
    if (count_ != 0 && parts_[count_ - 1].empty()) --count_;
  }

  [[nodiscard]] bool too_many() const noexcept { return too_many_; }

  [[nodiscard]] std::span<const std::string_view> parts() const noexcept { return {parts_.data(), count_}; }

 private:
  void add(std::string_view part) {
    if (count_ == max_segments) {
      too_many_ = true;
    } else {
      parts_[count_++] = part;
    }
  }

  std::vector<std::string> decoded_;
  std::array<std::string_view, max_segments> parts_{};
  std::size_t count_ = 0;
  bool too_many_ = false;
};

// Fills the captures where the pattern fits.
bool fits(std::string_view pattern, std::span<const std::string_view> segments, std::optional<std::string_view>& name,
          std::optional<std::string_view>& version) {
  name.reset();
  version.reset();
  if (segments.empty()) return pattern == "/";
  for (const std::string_view segment : segments) {
    if (pattern.empty()) return false;
    pattern.remove_prefix(1);
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    const std::string_view part = pattern.substr(0, end);
    pattern.remove_prefix(end);
    if (part == "{name}") {
      name = segment;
    } else if (part == "{version}") {
      version = segment;
    } else if (part != segment) {
      return false;
    }
  }
  return pattern.empty();
}

// How errors are written where no route fits.
Protocol protocol_of(std::string_view first_segment) {
  if (first_segment == "v1") return Protocol::openai;
  if (first_segment == "v2") return Protocol::open_inference;
  return first_segment == "api" ? Protocol::ollama : Protocol::own;
}

// How much of the body is to be read as JSON.
std::uint64_t text_bytes(const http::Request& request) {
  const std::uint64_t all = request.body.bytes.size();
  const auto field = request.headers.find("Inference-Header-Content-Length");
  std::uint64_t json = 0;
  if (!field || std::from_chars(field->data(), field->data() + field->size(), json).ec != std::errc()) return all;
  return std::min(json, all);
}

}  // namespace

void add_times(http::Response& response, const runtime::InferTimes& times,
               std::chrono::steady_clock::time_point arrived) {
  response.headers.add("X-Queue-Time", milliseconds(times.queue));
  response.headers.add("X-Inference-Time", milliseconds(times.compute));
  response.headers.add("X-Total-Time", milliseconds(Clock::now() - arrived));
}

std::optional<Clock::time_point> deadline_of(const http::Request& request) {
  constexpr const char* field = "X-Request-Timeout-Ms";
  const auto text = request.headers.find(field);
  if (!text) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc() || end != text->data() + text->size() || value == 0) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("{} is not a number of milliseconds from 1 to 4294967295", field));
  }
  return request.arrived + std::chrono::milliseconds(value);
}

struct Service::Match {
  const Route* route = nullptr;
  std::optional<std::string> name, version;
  std::vector<std::string> allowed;  // other methods, where the path fits and the method does not
  Protocol protocol = Protocol::own;
};

const Service::Route Service::routes_[] = {
    {{"POST", "/predict", "Run a model", true}, Protocol::own, &Service::predict, BodyKind::any},
    {{"POST", "/models/{name}/predict", "Run a model", true}, Protocol::own, &Service::predict, BodyKind::any},
    {{"GET", "/health", "Whether the server is healthy", false}, Protocol::own, &Service::health},
    {{"GET", "/health/live", "Whether the process answers", false}, Protocol::own, &Service::live},
    {{"GET", "/health/ready", "Whether every model answers", false}, Protocol::own, &Service::ready},
    {{"GET", "/models/{name}/health/ready", "Whether the model answers", false}, Protocol::own, &Service::ready},
    {{"GET", "/info", "Inputs and outputs of the model, and where it runs", true}, Protocol::own, &Service::info},
    {{"GET", "/models/{name}/info", "Inputs and outputs of the model, and where it runs", true},
     Protocol::own,
     &Service::info},
    {{"GET", "/models", "The models served", true}, Protocol::own, &Service::list},
    {{"GET", "/metrics", "Counters, as Prometheus reads them", false}, Protocol::own, &Service::metrics},
    {{"GET", "/v2", "Server metadata", true}, Protocol::open_inference, &Service::open_inference_metadata},
    {{"GET", "/v2/health/live", "Whether the process answers", false}, Protocol::open_inference, &Service::live},
    {{"GET", "/v2/health/ready", "Whether every model answers", false}, Protocol::open_inference, &Service::ready},
    // Before those with a name, as this is none.
    {{"GET", "/v2/models/stats", "Counters of every model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
    {{"GET", "/v2/models/{name}", "Model metadata", true}, Protocol::open_inference, &Service::open_inference_model},
    {{"GET", "/v2/models/{name}/versions/{version}", "Model metadata", true},
     Protocol::open_inference,
     &Service::open_inference_model},
    {{"GET", "/v2/models/{name}/config", "Model configuration", true},
     Protocol::open_inference,
     &Service::open_inference_config},
    {{"GET", "/v2/models/{name}/versions/{version}/config", "Model configuration", true},
     Protocol::open_inference,
     &Service::open_inference_config},
    {{"GET", "/v2/models/{name}/ready", "Whether the model answers", false},
     Protocol::open_inference,
     &Service::open_inference_ready},
    {{"GET", "/v2/models/{name}/versions/{version}/ready", "Whether the model answers", false},
     Protocol::open_inference,
     &Service::open_inference_ready},
    {{"POST", "/v2/models/{name}/infer", "Run a model", true},
     Protocol::open_inference,
     &Service::open_inference_infer,
     BodyKind::any},
    {{"POST", "/v2/models/{name}/versions/{version}/infer", "Run a model", true},
     Protocol::open_inference,
     &Service::open_inference_infer,
     BodyKind::any},
    {{"GET", "/v2/models/{name}/stats", "Counters of a model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
    {{"GET", "/v2/models/{name}/versions/{version}/stats", "Counters of a model", true},
     Protocol::open_inference,
     &Service::open_inference_statistics},
    {{"POST", "/v1/embeddings", "Vectors of texts and images, as OpenAI's clients ask for them", true},
     Protocol::openai,
     &Service::openai_embeddings},
    {{"POST", "/v1/completions", "Texts that continue prompts, as OpenAI's clients ask for them", true},
     Protocol::openai,
     &Service::openai_completions},
    {{"POST", "/v1/chat/completions", "Answers to conversations, as OpenAI's clients ask for them", true},
     Protocol::openai,
     &Service::openai_chat},
    {{"GET", "/v1/models", "The models served, as OpenAI's clients ask for them", true},
     Protocol::openai,
     &Service::openai_models},
    {{"GET", "/v1/models/{name}", "A model, as OpenAI's clients ask for it", true},
     Protocol::openai,
     &Service::openai_model},
    {{"POST", "/api/chat", "Answers to conversations, as Ollama's clients ask for them", true},
     Protocol::ollama,
     &Service::ollama_chat},
    {{"POST", "/api/generate", "Answers to prompts, as Ollama's clients ask for them", true},
     Protocol::ollama,
     &Service::ollama_generate},
    {{"POST", "/api/embed", "Vectors of texts, as Ollama's clients ask for them", true},
     Protocol::ollama,
     &Service::ollama_embed},
    {{"POST", "/api/embeddings", "The vector of a text, as Ollama's older clients ask for it", true},
     Protocol::ollama,
     &Service::ollama_embed},
    {{"GET", "/api/tags", "The models served, as Ollama's clients ask for them", true},
     Protocol::ollama,
     &Service::ollama_tags},
    {{"GET", "/api/ps", "The models that are loaded, as Ollama's clients ask for them", true},
     Protocol::ollama,
     &Service::ollama_ps},
    {{"POST", "/api/show", "A model, as Ollama's clients ask for it", true}, Protocol::ollama, &Service::ollama_show},
    {{"GET", "/api/version", "The version of the server, as Ollama's clients ask for it", true},
     Protocol::ollama,
     &Service::ollama_version},
    {{"GET", "/", "Whether the server answers, as Ollama's clients ask for it", false},
     Protocol::ollama,
     &Service::ollama_alive},
    {{"POST", "/", "Vectors of texts, or the outputs of a classifier or ranker", true},
     Protocol::texts,
     &Service::texts_by_ability,
     BodyKind::json_or_text},
    {{"POST", "/embed", "Vectors of texts", true}, Protocol::texts, &Service::embed, BodyKind::json_or_text},
    {{"POST", "/models/{name}/embed", "Vectors of texts", true},
     Protocol::texts,
     &Service::embed,
     BodyKind::json_or_text},
    {{"POST", "/embed_all", "Vectors of the tokens of texts", true},
     Protocol::texts,
     &Service::embed_all,
     BodyKind::json_or_text},
    {{"POST", "/models/{name}/embed_all", "Vectors of the tokens of texts", true},
     Protocol::texts,
     &Service::embed_all,
     BodyKind::json_or_text},
    {{"POST", "/embed_sparse", "Sparse vectors of texts", true},
     Protocol::texts,
     &Service::embed_sparse,
     BodyKind::json_or_text},
    {{"POST", "/models/{name}/embed_sparse", "Sparse vectors of texts", true},
     Protocol::texts,
     &Service::embed_sparse,
     BodyKind::json_or_text},
    {{"POST", "/rerank", "Texts by how well they answer a query", true}, Protocol::texts, &Service::rerank},
    {{"POST", "/models/{name}/rerank", "Texts by how well they answer a query", true},
     Protocol::texts,
     &Service::rerank},
    {{"POST", "/similarity", "How near texts are to one", true}, Protocol::texts, &Service::similarity},
    {{"POST", "/models/{name}/similarity", "How near texts are to one", true}, Protocol::texts, &Service::similarity},
    {{"POST", "/tokenize", "The tokens of texts", true}, Protocol::texts, &Service::tokenize, BodyKind::json_or_text},
    {{"POST", "/models/{name}/tokenize", "The tokens of texts", true},
     Protocol::texts,
     &Service::tokenize,
     BodyKind::json_or_text},
    {{"POST", "/decode", "The texts of tokens", true}, Protocol::texts, &Service::decode},
    {{"POST", "/models/{name}/decode", "The texts of tokens", true}, Protocol::texts, &Service::decode},
    {{"GET", "/openapi.json", "These routes with the models' signatures, as OpenAPI 3.1", true},
     Protocol::own,
     &Service::openapi},
    {{"GET", "/docs", "The same to read", true}, Protocol::own, &Service::docs},
    {{"POST", "/v2/repository/index", "The known models, loaded or not", true},
     Protocol::open_inference,
     &Service::repository_index},
    {{"POST", "/v2/repository/models/{name}/load", "Load or reload a model", true},
     Protocol::open_inference,
     &Service::repository_load},
    {{"POST", "/v2/repository/models/{name}/unload", "Take a model out of service", true},
     Protocol::open_inference,
     &Service::repository_unload},
};

Service::Service(ModelRepository& repository, ServiceOptions options)
    : repository_(repository),
      options_(std::move(options)),
      readers_({.threads = options_.reading_threads, .max_tasks = options_.max_reading}) {}

Service::~Service() = default;

std::span<const RouteInfo> Service::routes() noexcept {
  static const std::vector<RouteInfo> infos = [] {
    std::vector<RouteInfo> all;
    for (const Route& route : routes_) all.push_back(route.info);
    return all;
  }();
  return infos;
}

Service::Match Service::match(const http::Request& request) {
  Match match;
  const Segments segments(request);
  const auto parts = segments.parts();
  if (!parts.empty()) match.protocol = protocol_of(parts.front());
  if (segments.too_many()) return match;
  std::optional<std::string_view> name, version;
  for (const Route& route : routes_) {
    if (route.info.method != request.method || !fits(route.info.path, parts, name, version)) continue;
    match.route = &route;
    match.protocol = route.protocol;
    match.name = name;
    match.version = version;
    return match;
  }
  for (const Route& route : routes_) {
    if (fits(route.info.path, parts, name, version)) match.allowed.emplace_back(route.info.method);
  }
  return match;
}

std::optional<http::Response> Service::refusal(const http::Request& request, const Match& match) const {
  const auto answer = [&](ErrorCode code, const std::string& message, int status) {
    http::Response response = error_response(Error(code, message), match.protocol);
    response.status = status;
    return response;
  };
  if (const bool is_tcp = !request.peer || *request.peer != "unix"; is_tcp) {
    std::string problem =
        options_.browser_access.refusal({.host = request.headers["Host"], .origin = request.headers.find("Origin")});
    // No key is wrong, which "permission" says to clients.
    if (!problem.empty()) return answer(ErrorCode::usage, problem, 403);
  }
  if (match.route == nullptr) {
    // Not not_found: no model is missing.
    if (match.allowed.empty()) return answer(ErrorCode::usage, "there is no such route", 404);
    if (request.method == "OPTIONS") return preflight_answer(request, match);
    http::Response response = answer(ErrorCode::usage, fmt::format("accepted here: {}", join(match.allowed)), 405);
    response.headers.add("Allow", join(match.allowed));
    return response;
  }
  const std::string_view authorization = request.headers["Authorization"], x_api_key = request.headers["X-API-Key"];
  if (match.route->info.needs_key && !holds_key(options_.api_keys, authorization, x_api_key)) {
    http::Response response = answer(ErrorCode::permission, std::string(key_problem(authorization, x_api_key)), 401);
    response.headers.add("WWW-Authenticate", "Bearer");
    return response;
  }
  if (match.route->info.method == "POST") {
    const std::string problem = content_type_problem(match.route->body, request.headers["Content-Type"]);
    if (!problem.empty()) return answer(ErrorCode::invalid_input, problem, 415);
  }
  return std::nullopt;
}

http::Admitted Service::admit(const http::Request& request) const {
  const Match match = Service::match(request);
  if (std::optional<http::Response> refused = refusal(request, match)) {
    const auto origin = request.headers.find("Origin");
    if (origin && options_.browser_access.may_read(*origin)) allow_page_to_read(*refused, *origin);
    return std::move(*refused);
  }
  http::Admitted admitted;
  if (!match.route->info.needs_key || match.route->info.method == "GET") admitted.max_body_bytes = small_body_bytes;
  return admitted;
}

http::Response Service::preflight_answer(const http::Request& request, const Match& match) const {
  http::Response response;
  response.status = 204;
  const std::string methods = join(match.allowed);
  response.headers.add("Allow", methods);
  const auto origin = request.headers.find("Origin");
  if (!origin || !options_.browser_access.may_read(*origin)) return response;
  response.headers.add("Access-Control-Allow-Methods", methods);
  // What clients add differs (OpenAI's: X-Stainless-OS and others), and the server reads only fields that it knows.
  if (const auto fields = request.headers.find("Access-Control-Request-Headers")) {
    response.headers.add("Access-Control-Allow-Headers", *fields);
  }
  if (request.headers["Access-Control-Request-Private-Network"] == "true") {
    response.headers.add("Access-Control-Allow-Private-Network", "true");
  }
  response.headers.add("Access-Control-Max-Age", "600");
  return response;
}

void cancel_when_gone(http::Exchange& exchange, const RequestWork& work, std::function<void()> cancel) {
  exchange.on_gone([stop = work.stop, cancel = std::move(cancel)]() mutable {
    stop.request_stop();
    if (cancel) cancel();
  });
}

std::shared_ptr<MemoryShare> hold_for_reading(const RequestWork& work, std::string_view json,
                                              std::uint64_t bytes_a_value) {
  constexpr std::size_t short_bytes = 64 << 10;
  if (json.size() <= short_bytes) return nullptr;
  return work.hold(json.size() + count_values_at_most(json) * bytes_a_value, "reading the body");
}

// Memory that the JSON of a request takes for each of its bytes while it is read, as a measure of the work.
constexpr std::uint64_t bytes_to_read_a_byte = 16;

void Service::handle(const std::shared_ptr<http::Exchange>& exchange) {
  Match match = Service::match(exchange->request());
  RequestWork work{.readers = &readers_, .memory = options_.memory, .stop = {}, .deadline = {}};
  const auto origin = exchange->request().headers.find("Origin");
  auto traced = trace(exchange, {.deadline = work.deadline,
                                 .log_request = options_.log_requests,
                                 .page_may_read = origin && options_.browser_access.may_read(*origin)});
  Call call{std::move(traced), std::move(match.name), std::move(match.version), match.protocol, std::move(work)};
  const bool has_texts =
      match.protocol == Protocol::openai || match.protocol == Protocol::ollama || match.protocol == Protocol::texts;
  const std::uint64_t most = has_texts ? options_.tokenize_here_bytes : options_.read_here_bytes;
  const std::uint64_t bytes = text_bytes(call.request());
  const Route* route = match.route;
  try {
    if (route != nullptr && route->info.method == "POST") call.work.deadline.bring_forward(deadline_of(call.request()));
    if (route == nullptr || bytes <= most) {
      dispatch(call, route);
      return;
    }
    Call later = call;
    later.is_read_later = true;
    do_later(call, bytes * bytes_to_read_a_byte, [this, later = std::move(later), route] {
      dispatch(later, route);
      return false;
    });
  } catch (...) {
    call.exchange->respond(error_response(current_error(), call.protocol));
  }
}

std::optional<Clock::time_point> Service::latest_answer(const Call& call) const {
  const std::string name = repository_.name_of(call.name ? *call.name : options_.default_model);
  std::optional<std::chrono::milliseconds> longest;
  for (const auto& model : repository_.models()) {
    if (!name.empty() && model->name() != name) continue;
    const auto timeout = model->options().timeout;
    if (!timeout) return call.work.deadline.time();
    longest = std::max(longest.value_or(*timeout), *timeout);
  }
  const auto own = call.work.deadline.time();
  if (!longest) return own;
  const Clock::time_point of_models = call.request().arrived + *longest;
  return own ? std::min(*own, of_models) : of_models;
}

void Service::do_later(const Call& call, std::uint64_t cost, std::function<bool()> unit) {
  cancel_when_gone(*call.exchange, call.work);
  const auto fail = [exchange = call.exchange, protocol = call.protocol](const Error& error) {
    exchange->respond(error_response(error, protocol));
  };
  const std::optional<Clock::time_point> deadline = latest_answer(call);
  readers_.post({.cancellation = Cancellation(call.work.stop.get_token(), deadline),
                 .cost = cost,
                 .unit = std::move(unit),
                 .failed = fail,
                 .may_fail_beside_unit = true,
                 .is_admitted = call.is_read_later});
  if (!deadline || call.is_read_later) return;
  // Answered in time, however long the unit in progress takes.
  limits_.at(
      *deadline, [exchange = std::weak_ptr(call.exchange), stop = call.work.stop, protocol = call.protocol]() mutable {
        stop.request_stop();
        if (const auto waiting = exchange.lock()) {
          waiting->respond(
              error_response(Error(ErrorCode::deadline_exceeded, "the request was not finished in time"), protocol));
        }
      });
}

void Service::do_units(const Call& call, std::uint64_t cost, std::function<bool()> unit) {
  if (cost <= work_here_bytes) {
    while (unit()) {
    }
    return;
  }
  do_later(call, cost, std::move(unit));
}

void Service::dispatch(const Call& call, const Route* route) {
  try {
    if (route == nullptr) throw Error(ErrorCode::not_found, "there is no such route");
    (this->*route->handler)(call);
  } catch (const Error& error) {
    // Its model may have been closed while it was read: that would be not_found.
    if (is_stopped_) {
      call.exchange->respond(
          error_response(Error(ErrorCode::interrupted, "the server is shutting down"), call.protocol));
    } else {
      call.exchange->respond(error_response(error, call.protocol));
    }
  } catch (...) {
    const Error error = current_error();
    log::error("a request could not be handled: {}", error.message());
    const bool is_memory = error.code() == ErrorCode::resource_exhausted;
    call.exchange->respond(
        error_response(is_memory ? error : Error(ErrorCode::internal, "the server failed"), call.protocol));
  }
}

std::string Service::name_for(const Call& call) const {
  if (call.name) return *call.name;
  if (!options_.default_model.empty()) return options_.default_model;
  const std::vector<std::string> names = repository_.names();
  if (names.size() == 1) return names.front();
  if (names.empty()) throw Error(ErrorCode::not_found, "no model is loaded");
  throw Error(ErrorCode::usage, fmt::format("there are several models, name one: {}", join(names)));
}

void Service::with_model(const Call& call, ModelHandler handler) {
  const std::string name = name_for(call);
  const auto handle = [](const Call& of, const ModelHandler& how, const std::shared_ptr<ServedModel>& model) {
    if (const auto timeout = model->options().timeout) {
      of.work.deadline.bring_forward(of.request().arrived + *timeout);
    }
    how(of, model);
  };
  if (const std::shared_ptr<ServedModel> model = repository_.use_ready(name, call.version.value_or(""))) {
    handle(call, handler, model);
    return;
  }
  const auto protocol = call.protocol;
  const auto exchange = call.exchange;
  repository_.use(
      name, call.version.value_or(""),
      [call, handle, handler = std::move(handler)](const std::shared_ptr<ServedModel>& model) {
        try {
          handle(call, handler, model);
        } catch (const Error& error) {
          call.exchange->respond(error_response(error, call.protocol));
        } catch (...) {
          call.exchange->respond(error_response(current_error(), call.protocol));
        }
      },
      [exchange, protocol](const Error& error) { exchange->respond(error_response(error, protocol)); },
      deadline_of(call.request()));
}

}  // namespace gpux::server
