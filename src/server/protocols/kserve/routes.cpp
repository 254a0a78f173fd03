#include "server/protocols/kserve/routes.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/json_items.h"
#include "server/protocols/kserve/operations.h"
#include "server/protocols/kserve/requests.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/run_items.h"

namespace gpux::server::kserve {
namespace {

ItemRuns runs_of(const RouteCall& call, const std::shared_ptr<ServedModel>& model) {
  const std::string_view body = call.request().body.text();
  ItemRuns runs{.item = "instance", .begin = R"({"predictions": [)", .separator = ", ", .end = "]}"};
  const bool has_texts = model->pipeline() != nullptr || model->image_input() != nullptr;
  runs.share = hold_for_reading(call.work, body, has_texts ? bytes_per_json_string : bytes_per_json_number);
  const auto instances =
      std::make_shared<const std::vector<std::string_view>>(read_instances(body, call.work.member_rules));
  constexpr std::uint64_t bytes_per_instance = 64;
  if (runs.share != nullptr) {
    grow_share(*runs.share, call.work.memory, bytes_per_instance * instances->size(), "the list");
  }
  runs.count = instances->size();
  // The instances are views of the body, also after the request has been answered with an error.
  runs.read = [instances, model, kept = call.request().body](std::size_t index) {
    return pipeline::read_json_row((*instances)[index], model->signature(), model->image_input(),
                                   pipeline::Images::as_given);
  };
  // Numbers become a few times their text at most.
  runs.cost = [instances](std::size_t index) { return 4 * (*instances)[index].size(); };
  runs.append = [model](std::string& out, const NamedValues& outputs) {
    pipeline::append_row(out, outputs, model->declared_outputs(), NonFinite::null);
  };
  return runs;
}

void predict(const RouteCall& call) {
  with_model(call, [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    ItemRuns runs;
    try {
      runs = runs_of(with, model);
    } catch (const Error& error) {
      model->statistics().count(error, with.request().arrived);
      throw;
    }
    run_items(with, model, std::move(runs));
  });
}

constexpr RouteContract predict_contract{
    .answering = Answering::in_turn, .fields = predict_fields, .describe = describe_predict, .is_cacheable = true};

constexpr std::array<Route, 1> table{{
    {"POST", "/v1/models/{name}:predict",
     "Run a model, as KServe's first protocol and TensorFlow Serving's clients ask", RouteKey::any,
     Protocol::open_inference, predict, predict_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::kserve
