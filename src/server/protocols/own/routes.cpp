#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/provider_manager.h"
#include "runtime/json_items.h"
#include "server/health_report.h"
#include "server/http/form.h"
#include "server/metrics.h"
#include "server/probe.h"
#include "server/protocols/openapi/document.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/text_inputs.h"
#include "server/service_call.h"
#include "server/text_job.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

/// The routes of gpux's own protocol.
namespace gpux::server {
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
  if (const auto& encoder = model.encoder) append_encoder_info(out, model, *encoder);
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
      object = {};
      visit_array(body, [&](std::string_view first) {
        object = first;
        return false;
      });
      if (object.empty()) return {};
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

// The images of a form's fields, each named as the input or "file".
std::vector<std::string> images_of(const http::Request& request, const runtime::ImageInput& image) {
  std::vector<std::string> images;
  for (const http::FormPart& part : http::read_form(request.body.text(), request.headers["Content-Type"])) {
    if (part.name != image.name && part.name != "file") {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("the form has a field '{}'; accepted: '{}' or 'file', images", part.name, image.name));
    }
    images.emplace_back(part.content);
  }
  return images;
}

// The whole body is the text.
NamedValues text_in(const http::Request& request, const ServedModel& model) {
  std::string text(read_plain_text(request));
  const auto& inputs = model.signature().inputs;
  const auto entry = std::find_if(inputs.begin(), inputs.end(), [](const SignatureEntry& input) {
    return input.type.kind == ValueKind::tensor && input.type.element == ElementType::string;
  });
  if (entry == inputs.end()) {
    throw Error(ErrorCode::invalid_input, fmt::format("the body is a text, and '{}' takes no texts", model.name()));
  }
  return {{entry->name, Tensor::of_strings({1}, {std::move(text)})}};
}

// What the images of a body are: strings in the shape that submit() takes.
NamedValues images_in(const http::Request& request, const ServedModel& model, bool is_form) {
  if (model.image_input() == nullptr) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the body is {}, and '{}' takes no images", is_form ? "a form" : "an image", model.name()));
  }
  std::vector<std::string> images;
  if (is_form) {
    images = images_of(request, *model.image_input());
  } else {
    images.emplace_back(request.body.text());
  }
  const auto count = static_cast<std::int64_t>(images.size());
  return {{model.image_input()->name, Tensor::of_strings({count}, std::move(images))}};
}

bool is_image(const http::Request& request) {
  return http::is_form(request.headers["Content-Type"]) || lower(request.headers["Content-Type"]).starts_with("image/");
}

void predict_one(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                 const std::shared_ptr<ServedModel>& model, NamedValues inputs, const SubmitOptions& options,
                 const std::shared_ptr<MemoryShare>& share) {
  const http::Request& request = exchange->request();
  const Pending pending = submit(
      model, {.inputs = std::move(inputs), .outputs = {}, .priority = 0, .arrived = request.arrived}, work,
      [exchange, model, share, arrived = request.arrived](runtime::InferAnswer&& result) {
        try {
          if (result.error) throw Error(*result.error);
          std::string text;
          runtime::append_result(text, result.outputs, model->declared_outputs(), NonFinite::null);
          http::Response response = http::Response::json(200, std::move(text));
          add_times(response, result.times, arrived);
          exchange->respond(std::move(response));
        } catch (...) {
          exchange->respond(error_response(current_error(), Protocol::own));
        }
      },
      runtime::Here::allowed, options);
  if (pending) cancel_when_gone(*exchange, work, [pending] { pending.cancel(); });
}

// The items of a list, which are read, run and written one by one.
struct ItemList {
  http::Piece body;  ///< of which the items are parts, also after the request has been answered with an error
  runtime::UnreadItems unread;
  PendingParts pending;
  std::shared_ptr<MemoryShare> share;

  NamedValues read(std::size_t index, const ServedModel& model) const {
    return runtime::read_json_item(unread, index, model.signature(), model.image_input(), runtime::Images::as_given);
  }

  // Writes the results in their order; one that comes early is kept. Returns the bytes that both take more.
  std::uint64_t take(std::size_t index, NamedValues&& outputs, std::span<const DeclaredValue> declared) {
    const std::lock_guard lock(mutex_);
    const std::size_t capacity = text_.capacity();
    const std::uint64_t kept = index == written_ ? 0 : bytes_of(outputs);
    early_.emplace(index, std::move(outputs));
    for (auto next = early_.begin(); next != early_.end() && next->first == written_; next = early_.erase(next)) {
      if (written_++ != 0) text_ += ",\n ";
      runtime::append_result(text_, next->second, declared, NonFinite::null);
    }
    return kept + text_.capacity() - capacity;
  }

  [[nodiscard]] std::string end() { return std::move(text_ += ']'); }

 private:
  std::mutex mutex_;
  std::map<std::size_t, NamedValues> early_;
  std::size_t written_ = 0;
  std::string text_ = "[";
};

// Items that are prepared or queued at a time: what full batches need.
std::size_t items_in_flight(const ServedModel& model) {
  const Workers& workers = model.workers();
  const std::size_t runs = 2 * workers.sessions.size() * std::max(workers.replicas, 1U);
  return runs * (model.can_batch() ? static_cast<std::size_t>(model.options().max_batch_size) : 1);
}

// Queues an item of a list, which may come to several runs of its own.
void queue_item(const std::shared_ptr<ItemList>& list, const std::shared_ptr<ServedModel>& model,
                const RequestWork& work, std::size_t index, ServedModel::Call call, runtime::Completion done) {
  const auto here = list->unread.items.size() == 1 ? runtime::Here::allowed : runtime::Here::no;
  list->pending.begin(index);
  list->pending.add(index, submit(
                               model, std::move(call), work,
                               [list, index, done = std::move(done)](runtime::InferAnswer&& answer) {
                                 list->pending.end(index);
                                 done(std::move(answer));
                               },
                               here));
}

// All of a list, or nothing: the first failure is the answer, and the rest is dropped.
void predict_list(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model, const std::shared_ptr<ItemList>& list) {
  RunJob::Work runs{.count = list->unread.items.size(), .item = "item", .is_list = true, .outputs = {}};
  runs.arrived = exchange->request().arrived;
  runs.request = work;
  runs.max_in_flight = items_in_flight(*model);
  runs.prepare = [list, model](std::size_t index) { return list->read(index, *model); };
  // Numbers become a few times their text at most.
  runs.cost = [list](std::size_t index) { return 4 * list->unread.items[index].size(); };
  runs.queue = [list, model, work, arrived = runs.arrived](std::size_t index, NamedValues&& inputs, bool is_admitted,
                                                           runtime::Completion done) {
    ServedModel::Call call{.inputs = std::move(inputs), .outputs = {}, .arrived = arrived};
    call.is_admitted = is_admitted;
    queue_item(list, model, work, index, std::move(call), std::move(done));
  };
  runs.stop_others = [list] { list->pending.cancel(); };
  runs.take = [list, model](std::size_t index, NamedValues&& outputs) {
    return list->take(index, std::move(outputs), model->declared_outputs());
  };
  const auto answer = [exchange, list, cancellation = work.cancellation(), arrived = runs.arrived](
                          const std::optional<Error>& error, const RunJob::Times& times) {
    try {
      // After an error others may still be read or taken: what they use is let go with them.
      if (error) throw Error(*error);
      list->share.reset();
      cancellation.check();
      http::Response response = http::Response::json(200, list->end());
      add_times(response, times.slowest, arrived);
      exchange->respond(std::move(response));
    } catch (...) {
      exchange->respond(error_response(current_error(), Protocol::own));
    }
  };
  const auto job = std::make_shared<RunJob>(model, std::move(runs), answer);
  cancel_when_gone(*exchange, work, [job] { job->cancel(); });
  job->start();
}

void predict_with(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model) {
  const http::Request& request = exchange->request();
  NamedValues inputs;
  SubmitOptions options;
  const auto list = std::make_shared<ItemList>();
  try {
    if (is_plain_text(request)) {
      inputs = text_in(request, *model);
    } else if (is_image(request)) {
      inputs = images_in(request, *model, http::is_form(request.headers["Content-Type"]));
      options.sources = image::Sources{.base64 = false, .data_url = false};
    } else {
      const std::string_view body = request.body.text();
      const bool has_texts = model->pipeline() != nullptr || model->image_input() != nullptr;
      list->share = hold_for_reading(work, body, has_texts || is_array(body) ? bytes_a_json_text : bytes_a_json_number);
      list->body = request.body;
      list->unread = runtime::split_json_items(body);
      constexpr std::uint64_t bytes_an_item = 64;
      if (list->share != nullptr) {
        grow_share(*list->share, work.memory, bytes_an_item * list->unread.items.size(), "the list");
      }
      if (!list->unread.is_list) {
        inputs = runtime::read_json_item(list->unread, 0, model->signature(), model->image_input(),
                                         runtime::Images::as_given);
        // What was read is all that is kept.
        if (list->share != nullptr) (void)list->share->resize(bytes_of(inputs));
      }
    }
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  if (list->unread.is_list) {
    predict_list(exchange, work, model, list);
  } else {
    predict_one(exchange, work, model, std::move(inputs), options, list->share);
  }
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
      classify(with.exchange, with.work, model);
    } else if (!is_image(with.request()) && is_for_image_labels(*model, with.request().body.text())) {
      label_images(with.exchange, with.work, model);
    } else {
      predict_with(with.exchange, with.work, model);
    }
  });
}

void Service::health(const Call& call) {
  const std::vector<std::string> names = repository_.names();
  const HealthReport report = health_of(repository_.index(), ready_);
  std::string text = R"({"status":")";
  text += name_of(report.health);
  text += R"(","model":)";
  append_json_string(text, names.size() == 1 ? names.front() : repository_.name_of(options_.default_model));
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
          [respond, name = repository_.name_of(*call.name)](bool answered) { respond(answered ? "" : name); });
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
    const auto models = repository_.models_in_use();
    const TransportCounts transport{counters_ ? counters_() : http::Counters{}, grpc_counts_};
    return json ? json_metrics(models, transport) : prometheus_text(models, transport);
  };
  http::Response response;
  response.headers.add("Content-Type", json ? "application/json" : "text/plain; version=0.0.4; charset=utf-8");
  response.pieces.push_back((json ? metrics_json_ : metrics_text_).not_before(call.request().received, render));
  call.exchange->respond(std::move(response));
}

void Service::openapi(const Call& call) {
  call.exchange->respond(
      http::Response::json(200, openapi_json(repository_.models(), repository_.name_of(options_.default_model),
                                             routes(), !options_.api_keys.empty())));
}

void Service::docs(const Call& call) {
  http::Response response;
  response.headers.add("Content-Type", "text/html; charset=utf-8");
  response.text = openapi_page(repository_.models(), repository_.name_of(options_.default_model), routes(),
                               !options_.api_keys.empty());
  call.exchange->respond(std::move(response));
}

}  // namespace gpux::server
