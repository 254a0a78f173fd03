#include <gpux/error.h>
#include <gpux/model.h>
#include <gpux/model_inspector.h>
#include <gpux/run_sharing.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "model_options.h"
#include "values.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

using Outputs = std::optional<std::vector<std::string>>;

/// Ends a run from another thread.
class Stop {
 public:
  void request() { source_.request_stop(); }

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
};

/// A model that can be closed while runs are in flight: they keep it until they end.
class LoadedModel {
 public:
  LoadedModel(const std::string& model, nb::dict settings) {
    const ModelOptions options = to_model_options(std::move(settings));
    model_ =
        without_gil([&](const Interruptible& /*unused*/) { return std::make_shared<const Model>(model, options); });
  }

  void close() { model_.reset(); }

  [[nodiscard]] bool is_closed() const { return model_ == nullptr; }

  [[nodiscard]] nb::dict run(nb::handle inputs, const Outputs& outputs, std::optional<std::int64_t> timeout_ms,
                             const Stop* stop) const {
    const std::shared_ptr<const Model> model = opened();
    const NamedValues values = to_values(inputs, model->signature());
    InferOptions options = options_of(outputs, timeout_ms);
    return from_values(without_gil([&](const Interruptible& interruptible) {
      options.stop = stop == nullptr ? interruptible.token() : stop->token();
      return model->infer(values, options);
    }));
  }

  [[nodiscard]] nb::list run_batch(nb::list items, const Outputs& outputs, std::optional<std::int64_t> timeout_ms,
                                   std::uint64_t batch_limit) const {
    const std::shared_ptr<const Model> model = opened();
    std::vector<NamedValues> values;
    for (const nb::handle item : items) values.push_back(to_values(item, model->signature()));
    InferOptions options = options_of(outputs, timeout_ms);
    std::vector<NamedValues> results = without_gil([&](const Interruptible& interruptible) {
      options.stop = interruptible.token();
      return model->batch_infer(values, options, batch_limit);
    });
    nb::list list;
    for (NamedValues& result : results) list.append(from_values(std::move(result)));
    return list;
  }

  [[nodiscard]] BenchmarkResult benchmark(nb::handle inputs, std::uint64_t runs, std::uint64_t warmup_runs,
                                          std::optional<double> seconds) const {
    const std::shared_ptr<const Model> model = opened();
    const Runtime& runtime = model->runtime();
    const NamedValues values =
        inputs.is_none() ? synthetic_inputs(runtime.info().signature) : to_values(inputs, runtime.info().signature);
    return without_gil([&](const Interruptible& interruptible) {
      const BenchmarkOptions options{
          .runs = runs, .warmup_runs = warmup_runs, .seconds = seconds, .progress = [&](double /*done*/) {
            interruptible.check();
          }};
      return runtime.benchmark(values, options);
    });
  }

  [[nodiscard]] RunSharing run_sharing() const {
    const std::shared_ptr<const Model> model = opened();
    return without_gil([&](const Interruptible& /*unused*/) { return model->runtime().run_sharing(); });
  }

  [[nodiscard]] std::vector<Runtime::PlacedNode> placement() const { return opened()->runtime().placement(); }

  [[nodiscard]] std::shared_ptr<const Model> opened() const {
    if (!model_) throw Error(ErrorCode::usage, "the model is closed: make another Runtime");
    return model_;
  }

 private:
  static InferOptions options_of(const Outputs& outputs, std::optional<std::int64_t> timeout_ms) {
    InferOptions options;
    if (outputs) options.outputs = *outputs;
    if (timeout_ms) options.timeout = std::chrono::milliseconds(*timeout_ms);
    return options;
  }

  std::shared_ptr<const Model> model_;
};

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Stop>(module, "Stop", "Ends a run from another thread.").def(nb::init<>()).def("request", &Stop::request);

  nb::class_<BenchmarkResult>(module, "BenchmarkResult", "Times in milliseconds.")
      .def_ro("mean_ms", &BenchmarkResult::mean_ms)
      .def_ro("std_ms", &BenchmarkResult::std_ms)
      .def_ro("min_ms", &BenchmarkResult::min_ms)
      .def_ro("max_ms", &BenchmarkResult::max_ms)
      .def_ro("median_ms", &BenchmarkResult::median_ms)
      .def_ro("p90_ms", &BenchmarkResult::p90_ms)
      .def_ro("p95_ms", &BenchmarkResult::p95_ms)
      .def_ro("p99_ms", &BenchmarkResult::p99_ms)
      .def_ro("throughput_per_second", &BenchmarkResult::throughput_per_second, "Runs, not items of a batch.")
      .def_ro("first_run_ms", &BenchmarkResult::first_run_ms)
      .def_ro("load_ms", &BenchmarkResult::load_ms)
      .def_ro("runs", &BenchmarkResult::runs)
      .def_ro("warmup_runs", &BenchmarkResult::warmup_runs)
      .def_ro("peak_memory_bytes", &BenchmarkResult::peak_memory_bytes, "Peak resident memory of the process.")
      .def("__repr__", [](const BenchmarkResult& result) {
        return "BenchmarkResult(median_ms=" + std::to_string(result.median_ms) +
               ", runs=" + std::to_string(result.runs) + ")";
      });

  nb::class_<RunSharing>(module, "RunSharing", "Whether requests may share a run of a model, and how that is known.")
      .def_ro("shared", &RunSharing::shared)
      .def_prop_ro("source", [](const RunSharing& sharing) { return std::string(to_string(sharing.source)); })
      .def_ro("reason", &RunSharing::reason)
      .def("__str__", [](const RunSharing& sharing) { return to_line(sharing); });

  nb::class_<Runtime::PlacedNode>(module, "PlacedNode", "A node of the session, and the provider that runs it.")
      .def_ro("provider", &Runtime::PlacedNode::provider)
      .def_ro("name", &Runtime::PlacedNode::name)
      .def_ro("domain", &Runtime::PlacedNode::domain)
      .def_ro("operator_type", &Runtime::PlacedNode::operator_type)
      .def("__repr__", [](const Runtime::PlacedNode& node) {
        return node.operator_type + " '" + node.name + "' on " + node.provider;
      });

  nb::class_<LoadedModel>(module, "LoadedModel", "A loaded model.")
      .def(nb::init<const std::string&, nb::dict>(), nb::arg("model"), nb::arg("settings"))
      .def("close", &LoadedModel::close)
      .def_prop_ro("is_closed", &LoadedModel::is_closed)
      .def("run", &LoadedModel::run, nb::arg("inputs").none(), nb::arg("outputs").none(), nb::arg("timeout_ms").none(),
           nb::arg("stop").none(),
           nb::sig(
               "def run(self, inputs: object, outputs: collections.abc.Sequence[str] | None, timeout_ms: int | None, "
               "stop: Stop | None) -> dict[str, typing.Any]"))
      .def("run_batch", &LoadedModel::run_batch, nb::arg("items"), nb::arg("outputs").none(),
           nb::arg("timeout_ms").none(), nb::arg("batch_limit"),
           nb::sig("def run_batch(self, items: list[typing.Any], outputs: collections.abc.Sequence[str] | None, "
                   "timeout_ms: int | None, batch_limit: int) -> list[dict[str, typing.Any]]"))
      .def("benchmark", &LoadedModel::benchmark, nb::arg("inputs").none(), nb::arg("runs"), nb::arg("warmup_runs"),
           nb::arg("seconds").none())
      .def("run_sharing", &LoadedModel::run_sharing)
      .def("placement", &LoadedModel::placement)
      .def_prop_ro("name", [](const LoadedModel& model) { return model.opened()->name(); })
      .def_prop_ro("version", [](const LoadedModel& model) { return model.opened()->version(); })
      .def_prop_ro("verdict", [](const LoadedModel& model) { return model.opened()->verdict(); })
      .def_prop_ro("inputs", [](const LoadedModel& model) { return model.opened()->signature().inputs; })
      .def_prop_ro("outputs", [](const LoadedModel& model) { return model.opened()->signature().outputs; })
      .def_prop_ro("load_ms", [](const LoadedModel& model) { return model.opened()->runtime().load_time().count(); })
      .def_prop_ro("content",
                   [](const LoadedModel& model) { return ModelInspector::to_json(model.opened()->runtime().info()); });
}

}  // namespace gpux::python
