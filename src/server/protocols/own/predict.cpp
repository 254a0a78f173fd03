#include "server/protocols/own/predict.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "pipeline/json_items.h"
#include "server/http/form.h"
#include "server/jobs/infer_submission.h"
#include "server/protocols/answer_times.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/run_items.h"
#include "server/protocols/tei/classify.h"
#include "server/protocols/tei/extract.h"
#include "server/protocols/tei/label_images.h"
#include "tensor/json_envelope.h"

namespace gpux::server::own {
namespace {

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
std::vector<std::string> images_of(const http::Request& request, const ImageInput& image) {
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
  const Pending pending = submit_infer(
      model, {.inputs = std::move(inputs), .arrived = request.arrived}, work,
      [exchange, model, share, arrived = request.arrived](runtime::InferAnswer&& result) {
        try {
          if (result.error) throw Error(*result.error);
          std::string text;
          pipeline::append_result(text, result.outputs, model->declared_outputs(), NonFinite::null);
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

// A list: its items are read, run and written one by one.
void predict_list(const RouteCall& call, const std::shared_ptr<ServedModel>& model, pipeline::UnreadItems given,
                  const std::shared_ptr<MemoryShare>& share) {
  const auto unread = std::make_shared<const pipeline::UnreadItems>(std::move(given));
  ItemRuns runs{.count = unread->items.size(), .share = share};
  // The items are views of the body, also after the request has been answered with an error.
  runs.read = [unread, model, body = call.request().body](std::size_t index) {
    return pipeline::read_json_item(*unread, index, model->signature(), model->image_input(),
                                    pipeline::Images::as_given);
  };
  // Numbers become a few times their text at most.
  runs.cost = [unread](std::size_t index) { return 4 * unread->items[index].size(); };
  runs.append = [model](std::string& out, const NamedValues& outputs) {
    pipeline::append_result(out, outputs, model->declared_outputs(), NonFinite::null);
  };
  run_items(call, model, std::move(runs));
}

void predict_with(const RouteCall& call, const std::shared_ptr<ServedModel>& model) {
  const http::Request& request = call.request();
  NamedValues inputs;
  SubmitOptions options;
  pipeline::UnreadItems unread;
  std::shared_ptr<MemoryShare> share;
  try {
    if (is_plain_text(request)) {
      inputs = text_in(request, *model);
    } else if (is_image(request)) {
      inputs = images_in(request, *model, http::is_form(request.headers["Content-Type"]));
      options.sources = image::Sources{.base64 = false, .data_url = false};
    } else {
      const std::string_view body = request.body.text();
      const bool has_texts = model->pipeline() != nullptr || model->image_input() != nullptr;
      share = hold_for_reading(call.work, body,
                               has_texts || is_array(body) ? bytes_per_json_string : bytes_per_json_number);
      unread = pipeline::split_json_items(body);
      constexpr std::uint64_t bytes_per_item = 64;
      if (share != nullptr) grow_share(*share, call.work.memory, bytes_per_item * unread.items.size(), "the list");
      if (!unread.is_list) {
        inputs =
            pipeline::read_json_item(unread, 0, model->signature(), model->image_input(), pipeline::Images::as_given);
        // What was read is all that is kept.
        if (share != nullptr) (void)share->resize(bytes_of(inputs));
      }
    }
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  if (unread.is_list) {
    predict_list(call, model, std::move(unread), share);
  } else {
    predict_one(call.exchange, call.work, model, std::move(inputs), options, share);
  }
}

}  // namespace

void predict(const RouteCall& call) {
  RouteCall named = call;
  if (!call.name && call.service.options.default_model.empty() && call.service.repository.names().size() > 1) {
    const std::string fitting = fitting_model(call.request().body.text(), call.service.repository.descriptions());
    if (!fitting.empty()) named.name = fitting;
  }
  with_model(named, [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    if (!is_plain_text(with.request()) && tei::is_for_classifier(*model, with.request().body.text())) {
      tei::classify(with.exchange, with.work, model);
    } else if (!is_plain_text(with.request()) && tei::is_for_extraction(*model, with.request().body.text())) {
      tei::extract(with.exchange, with.work, model);
    } else if (!is_image(with.request()) && tei::is_for_image_labels(*model, with.request().body.text())) {
      tei::label_images(with.exchange, with.work, model);
    } else {
      predict_with(with, model);
    }
  });
}

}  // namespace gpux::server::own
