#include "model/open_model.h"

#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/home.h"
#include "base/log.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "isolation/load_facts.h"
#include "model/required_precision.h"
#include "project/signature_match.h"
#include "runtime/session/ensemble_session.h"
#include "runtime/session/steps.h"

namespace gpux {

Store open_store() {
  return Store(home_folder());
}

// A folder may have a tokenizer and a model that uses tokens differently: then it accepts only its own inputs.
// If the user sets the task, the error is reported.
std::shared_ptr<const pipeline::Pipeline> open_pipeline(const LocatedModel& located, const Signature& signature) {
  const ProjectFile* project = located.project ? &*located.project : nullptr;
  const bool is_asked_for = project != nullptr && (project->text.task || project->text.tokenizer);
  try {
    auto settings = pipeline::read_text_settings(located.onnx_file, project, signature);
    if (!settings) return nullptr;
    return std::make_shared<const pipeline::Pipeline>(*std::move(settings), signature);
  } catch (const Error& error) {
    if (is_asked_for || error.code() != ErrorCode::invalid_model) throw;
    log::info("{} is not given texts: {}", located.onnx_file.string(), error.message());
    return nullptr;
  }
}

LocatedModel locate_model(const std::string& model, const std::string& config) {
  return locate(model, open_store(), config.empty() ? std::nullopt : std::optional<std::filesystem::path>(config));
}

OpenModel open_model(const std::string& model, const std::string& config, const LoadRequest& request) {
  return open_model(locate_model(model, config), request);
}

namespace {

// Each step has the settings of its own gpux.yml, and those that are asked for now.
OpenModel open_ensemble(LocatedModel located, const LoadRequest& request) {
  OpenModel opened;
  opened.settings = resolve_load(request, located);
  if (!opened.settings.options.profile.empty()) {
    throw Error(ErrorCode::usage,
                format_message("{} is about one model, and an ensemble has several", setting_named("profile")));
  }
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has steps
  const DeclaredEnsemble& declared = *located.project->ensemble;
  std::vector<runtime::EnsembleStep> steps;
  opened.info.name = located.name;
  opened.info.version = located.version;
  opened.info.path = located.onnx_file;
  for (std::size_t i = 0; i < located.steps.size(); ++i) {
    const DeclaredStep& step = declared.steps[i];
    try {
      OpenModel model = open_model(located.steps[i], request);
      change_facts(model.settings.options,
                   [&](LoadFacts& facts) { facts.worker_name = fmt::format("{}.{}", located.name, step.name); });
      steps.push_back({.name = step.name, .signature = model.info.signature, .inputs = step.inputs});
      opened.info.size_bytes += model.info.total_bytes();
      opened.info.node_count += model.info.node_count;
      opened.info.parameter_count += model.info.parameter_count;
      opened.info.parameter_bytes += model.info.parameter_bytes;
      for (const auto& [name, count] : model.info.operators) opened.info.operators[name] += count;
      for (const auto& [type, count] : model.info.parameter_types) opened.info.parameter_types[type] += count;
      opened.steps.push_back(std::move(model));
    } catch (const Error& error) {
      throw error.within(fmt::format("{}: step '{}'", located.project->where(step.position), step.name));
    }
  }
  try {
    opened.plan = runtime::plan_ensemble(steps, declared.outputs);
  } catch (const Error& error) {
    throw error.within(located.project->file.string());
  }
  opened.info.signature = opened.plan.signature;
  opened.located = std::move(located);
  return opened;
}

}  // namespace

OpenModel open_model(LocatedModel located, const LoadRequest& request) {
  if (!located.steps.empty()) return open_ensemble(std::move(located), request);
  OpenModel opened;
  opened.located = std::move(located);
  opened.settings = resolve_load(request, opened.located);
  opened.info = ModelInspector::inspect(opened.located.onnx_file);
  opened.info.signature = runtime::with_steps(opened.info.signature, opened.settings.options);
  opened.info.name = opened.located.name;
  opened.info.version = opened.located.version;
  const ProjectFile* project = opened.located.project ? &*opened.located.project : nullptr;
  if (project != nullptr) require_match(*project, pipeline::declarable(opened.info.signature, *project));
  return opened;
}

void OpenModel::open_inputs() {
  // An ensemble is given the inputs of its steps as they are.
  if (!steps.empty()) return;
  pipeline = open_pipeline(located, info.signature);
  open_image_input();
}

void OpenModel::open_image_input() {
  if (!steps.empty()) return;
  const ProjectFile* project = located.project ? &*located.project : nullptr;
  // Where there is an image tower, images are its input.
  if (project == nullptr || project->image_tower.empty()) {
    image_input = gpux::image_input(project, info.signature, {.path = true});
  }
}

pipeline::Items OpenModel::read(const InputFlags& flags) const {
  return read_inputs(flags, signature(), image_input ? &*image_input : nullptr);
}

NamedValues OpenModel::own_inputs(const NamedValues& given) const {
  if (!pipeline || !pipeline->takes_text(given)) return given;
  pipeline::Prepared prepared = pipeline->prepare(given);
  if (prepared.parts.size() != 1) {
    throw Error(ErrorCode::usage,
                fmt::format("one run is asked for, and these texts take {}: give one text", prepared.parts.size()));
  }
  return std::move(prepared.parts.front().inputs);
}

std::vector<DeclaredValue> OpenModel::declared_outputs() const {
  const auto declared = located.project ? located.project->outputs : std::nullopt;
  return pipeline ? pipeline->outputs(declared) : declared.value_or(std::vector<DeclaredValue>());
}

Runtime load_located(const LocatedModel& located, LoadSettings settings) {
  LoadOptions& options = settings.options;
  if (facts_of(options).worker_name.empty()) {
    change_facts(options, [&](LoadFacts& facts) { facts.worker_name = located.name; });
  }
  if (located.stored) {
    options.map_weights = true;  // files of the store are never changed
    const std::filesystem::path& folder = located.package_folder;
    options.compared_provider = located.stored->package.compared_provider;
    for (const Variant& variant : located.stored->package.variants) {
      const VariantTarget& target = variant.target;
      if (variant.precision) {
        options.precision_variants.push_back({.file = folder / variant.model_file,
                                              .precision = variant.precision->name,
                                              .provider = target.provider,
                                              .weight_bits = variant.precision->weight_bits,
                                              .mean_cosine = variant.precision->mean_cosine});
      } else {
        options.optimized_graphs.push_back({folder / variant.model_file, target.provider, target.runtime_version,
                                            target.device, target.optimization_level, target.machine,
                                            target.provider_options});
      }
    }
  }
  Runtime runtime(located.onnx_file, options);
  require_precision(runtime, settings);
  return runtime;
}

Runtime OpenModel::load_steps() const {
  std::vector<Runtime> loaded;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    OpenModel step = steps[i];
    // What a server decides of threads and devices for the whole.
    const LoadOptions& whole = settings.options;
    LoadOptions& own = step.settings.options;
    if (whole.intra_threads) own.intra_threads = whole.intra_threads;
    if (whole.device) own.device = whole.device;
    own.session_config.insert(own.session_config.end(), whole.session_config.begin(), whole.session_config.end());
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has steps
    const std::string& name = located.project->ensemble->steps[i].name;
    try {
      loaded.push_back(step.load());
    } catch (const Error& error) {
      throw error.within(fmt::format("step '{}'", name));
    }
    names.push_back(name);
  }
  return runtime::EnsembleSession::make(plan, std::move(names), std::move(loaded), info, settings.options);
}

Runtime OpenModel::load() const {
  if (!steps.empty()) return load_steps();
  LoadSettings with_sizes = settings;
  std::vector<ExpectedSize>& known = with_sizes.options.expected_sizes;
  if (known.empty()) known = expected_sizes(info.signature, sizes());
  return load_located(located, std::move(with_sizes));
}

}  // namespace gpux
