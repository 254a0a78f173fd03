#include "library/package_build.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/folders.h"
#include "base/format_message.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "checkpoint/setting_files.h"
#include "embedding/graph_pooling.h"
#include "evaluation/own_provider_comparison.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "library/other_folder.h"
#include "model/open_model.h"
#include "model/package_content.h"
#include "provider/own_provider.h"
#include "provider/shape_profile.h"
#include "provider/table.h"
#include "store/package_manifest.h"
#include "store/variant.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr const char* optimized_folder = "optimized";

std::vector<Reference> names_for(const BuildRequest& flags, const LocatedModel& located) {
  std::vector<Reference> names;
  for (const std::string& tag : flags.tags) names.push_back(parse_reference(tag));
  if (!names.empty()) return names;
  try {
    return {parse_reference(located.name + ":" + located.version), parse_reference(located.name)};
  } catch (const Error& error) {
    throw error.within("give the package a name with -t NAME[:TAG]");
  }
}

// The tokenizer, and the settings beside it, where the model is given texts.
void add_text_files(const OpenModel& model, PackageContent& content) {
  if (!model.pipeline) return;
  const fs::path folder = model.pipeline->settings().tokenizer_file.parent_path();
  const fs::path below = model.located.project ? folder.lexically_relative(model.located.project->folder()) : "";
  for (const std::string& file : checkpoint::setting_files_in(folder)) {
    const std::string name = (below / file).lexically_normal().generic_string();
    const bool is_known = std::any_of(content.files.begin(), content.files.end(),
                                      [&](const PackageFile& known) { return known.name == name; });
    if (!is_known && is_inside_package(name)) content.files.push_back({folder / file, name});
  }
}

// serve refuses it, too: found here before the package is stored.
void require_fitting_batching(const OpenModel& model) {
  if (!model.located.project || !model.located.project->serving.batching) return;
  if (checkpoint::sentence_model_of(model.located.onnx_file)) return;
  throw Error(ErrorCode::invalid_config,
              fmt::format("{}: serving.batching applies to vectors of texts, and '{}' makes none",
                          model.located.project->where("serving.batching"), model.located.name));
}

bool is_fixed(const std::string& place, const Signature& signature) {
  return std::ranges::any_of(signature.inputs, [&](const SignatureEntry& entry) {
    if (!entry.type.dimensions) return false;
    for (std::size_t i = 0; i < entry.type.dimensions->size(); ++i) {
      if (place == fmt::format("{}.{}", entry.name, i)) return (*entry.type.dimensions)[i].size.has_value();
    }
    return false;
  });
}

// An optimized graph, with the files next to it, is a variant of the package for the provider chosen here.
void add_optimized(PackageContent& content, const Runtime& runtime) {
  const OptimizedGraph& graph = runtime.written_graph();
  // In one order, whatever the file system's: a package's id follows from it.
  const fs::directory_iterator beside(graph.file.parent_path());
  for (const fs::path& file : std::set<fs::path>(begin(beside), end(beside))) {
    content.files.push_back({file, (fs::path(optimized_folder) / file.filename()).string()});
  }
  content.variants.push_back({(fs::path(optimized_folder) / graph.file.filename()).string(),
                              {.provider = graph.provider,
                               .runtime_version = graph.runtime_version,
                               .device = graph.device,
                               .optimization_level = graph.optimization,
                               .machine = graph.machine,
                               .provider_options = graph.provider_options},
                              {}});
}

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

// Some compile in the first run of a shape.
void run_in(const std::vector<provider::ShapeRange>& ranges, const Runtime& runtime) {
  for (const auto which :
       {&provider::ShapeRange::smallest, &provider::ShapeRange::tuned, &provider::ShapeRange::largest}) {
    Sizes sizes;
    for (const provider::ShapeRange& range : ranges) {
      const std::vector<std::int64_t>& shape = range.*which;
      for (std::size_t i = 0; i < shape.size(); ++i) sizes.emplace_back(fmt::format("{}.{}", range.input, i), shape[i]);
    }
    // Fixed sizes are the model's, and it compares them.
    std::erase_if(sizes, [&](const auto& size) { return is_fixed(size.first, runtime.info().signature); });
    try {
      (void)runtime.infer(synthetic_inputs(runtime.info().signature, sizes));
    } catch (const Error& error) {
      throw error.within(
          format_message("{}: a run of {}", setting_named("shapes"), provider::shapes_text(ranges, which)));
    }
  }
}

std::string shapes_of(const LoadRequest& request) {
  return request.shapes ? request.shapes->value : std::string();
}

// Texts are embedded with the vectors pooled in the graph, which is another model to the provider.
void compile_pooled(const BuildRequest& flags, const OpenModel& model, const LoadOptions& options) {
  const auto sentences = checkpoint::sentence_model_of(model.located.onnx_file);
  if (!sentences) return;
  LoadOptions pooled = options;
  pooled.optimized_model.clear();
  pooled.pooled_output = embedding::graph_pooling(*sentences, model.info.signature);
  if (!pooled.pooled_output) return;
  const Runtime runtime(model.located.onnx_file, pooled);
  run_in(provider::parse_shape_profile(shapes_of(flags.load)), runtime);
}

// Of the requested provider, where it runs the model.
std::optional<CompiledEngine> engine_of(const Verdict& verdict, const LoadOptions& options) {
  const provider::ProviderRow* row = provider::find_row(split(options.provider, ',').front());
  for (const ProviderAttempt& attempt : verdict.tried) {
    const bool is_active = std::ranges::find(verdict.active, attempt.id) != verdict.active.end();
    if (row == nullptr || attempt.id != row->id || !is_active) continue;
    return CompiledEngine{.provider = attempt.id, .folder = attempt.engine_folder};
  }
  return std::nullopt;
}

BuiltPackage build_by(const fs::path& scratch, const BuildRequest& flags, Store& store,
                      const evaluation::VariantListener& listener) {
  const LoadRequest load = evaluation::request_beside(flags.load);
  OpenModel model = open_model(flags.path, flags.config, load);
  require_one_model(model.located, "a package");
  model.open_inputs();
  if (model.located.stored) {
    throw Error(ErrorCode::usage, fmt::format("'{}' is already a stored package; gpux tag adds a name", flags.path));
  }
  // A variant of one tower would be compared with the other's vectors.
  if (flags.quantize.given() && has_image_tower(model.located)) {
    throw Error(
        ErrorCode::usage,
        format_message("{}: '{}' has a text tower and an image tower, and variants of such models are not supported",
                       setting_named("quantize"), flags.path));
  }
  const std::vector<Reference> names = names_for(flags, model.located);
  if (model.located.project) require_portable_options(*model.located.project);
  PackageContent content = package_content(model.located, flags.load.provider);
  add_text_files(model, content);
  content.shapes = shapes_of(flags.load);
  if (flags.load.precision) content.precision = model.settings.options.precision;

  // Loading proves that it is a model. It also writes the optimized graph if that is requested.
  LoadOptions options = model.settings.options;
  options.expected_sizes = expected_sizes(model.info.signature, model.sizes());
  std::optional<evaluation::MadeVariant> variant;
  if (flags.quantize.given()) {
    const fs::path& onnx_file = model.located.onnx_file;
    const auto sentences = flags.quantize.samples.empty() ? checkpoint::sentence_model_of(onnx_file) : std::nullopt;
    variant = evaluation::make_variant(flags.quantize, flags.load, options, onnx_file, sentences, scratch, listener);
    add_to(content, variant->kept);
    add_to(options, variant->kept);
  }
  if (flags.optimize) {
    // Nothing else lies there.
    fs::create_directory(scratch / optimized_folder);
    options.optimized_model = scratch / optimized_folder / "model.onnx";
  }
  auto runtime = std::make_unique<Runtime>(model.located.onnx_file, options);
  require_fitting_batching(model);
  if (flags.optimize) add_optimized(content, *runtime);
  BuiltPackage built{.stored = {}, .names = names, .verdict = runtime->verdict(), .variant = std::move(variant)};
  if (flags.load.shapes) built.engine = engine_of(built.verdict, options);
  if (built.engine) {
    run_in(provider::parse_shape_profile(shapes_of(flags.load)), *runtime);
    runtime.reset();  // some keep what they compiled when a session ends
    compile_pooled(flags, model, options);
    built.engine->bytes = bytes_below(built.engine->folder);
  }
  runtime.reset();
  content.compared_provider =
      evaluation::compare_own_provider(model.located.onnx_file, model.info, model.settings.options);
  provider::note_packaged(content.compared_provider, built.verdict);
  built.stored = store.add(content, names);
  return built;
}

}  // namespace

BuiltPackage build_package(const BuildRequest& flags, Store& store, const evaluation::VariantListener& listener) {
  const ScratchFolder scratch;
  try {
    return build_by(scratch.path(), flags, store, listener);
  } catch (const Error& error) {
    rethrow_as(error, in_source_of(error, scratch.path(), flags.path));
  }
}

}  // namespace gpux
