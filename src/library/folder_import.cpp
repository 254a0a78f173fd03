#include "library/folder_import.h"

#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/folders.h"
#include "base/format_message.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/scratch_folder.h"
#include "checkpoint/decoder_folder.h"
#include "checkpoint/exported_files.h"
#include "checkpoint/image_preprocessing.h"
#include "checkpoint/image_project.h"
#include "checkpoint/reranker_format.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sentence_model.h"
#include "checkpoint/setting_files.h"
#include "embedding/embedder.h"
#include "embedding/open_tokenizer.h"
#include "evaluation/own_provider_comparison.h"
#include "generation/generation_config.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"
#include "importer/gguf/gguf_file.h"
#include "importer/import_model.h"
#include "library/decoder_import.h"
#include "library/other_folder.h"
#include "model/open_image_encoder.h"
#include "model/open_model.h"
#include "model/package_content.h"
#include "pipeline/pipeline.h"
#include "provider/own_provider.h"
#include "store/package_manifest.h"
#include "text/embedded_tokens.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr const char* converted_folder = "model";

// The folder as the settings of its reranker's format read it; empty where it is none, or has settings of its own.
std::optional<checkpoint::RerankerFolder> reranker_folder(const fs::path& folder, const std::string& asked,
                                                          bool is_onnx) {
  if (asked.empty()) {
    const auto of_card = is_onnx ? std::nullopt : checkpoint::reranker_format_in(folder);
    if (!of_card) return std::nullopt;
    return std::optional<checkpoint::RerankerFolder>(std::in_place, folder, *of_card);
  }
  const auto format = checkpoint::reranker_format_from(asked);
  if (!format)
    throw Error(ErrorCode::usage, format_message("{} '{}'; accepted: qwen3", setting_named("reranker"), asked));
  if (is_onnx) {
    throw Error(ErrorCode::usage, format_message("{}: '{}' has an ONNX file; accepted: a folder with safetensors",
                                                 setting_named("reranker"), file_at(folder)));
  }
  return std::optional<checkpoint::RerankerFolder>(std::in_place, folder, *format);
}

// Reads the folder, or what stands for it, whose name the user does not know.
template <typename Read>
auto in_place_of(const fs::path& folder, const std::optional<checkpoint::RerankerFolder>& other, const Read& read) {
  if (!other) return read(folder);
  try {
    return read(other->path());
  } catch (const Error& error) {
    throw in_other_folder(error, other->path(), folder);
  }
}

// That it loads, and has what its task needs, is seen before it is stored.
ImportedPackage store_folder(const fs::path& folder, const std::vector<Reference>& names, const ImportRequest& flags,
                             const fs::path& scratch, Store& store, const evaluation::VariantListener& listener) {
  checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder, flags.file);
  LocatedModel located;
  located.onnx_file = model.onnx_file;
  located.name = flags.package_name.empty() ? names.front().name : flags.package_name;
  located.version = names.front().tag == "latest" ? "1.0.0" : names.front().tag;
  located.pulled_from = flags.origin.source;
  PackageContent content = package_content(located, flags.load.provider);
  content.origin = flags.origin;
  for (const std::string& file : checkpoint::setting_files_in(folder)) content.files.push_back({folder / file, file});
  LoadSettings settings = resolve_check(evaluation::request_beside(flags.load), located);
  if (flags.load.precision) content.precision = settings.options.precision;
  const Signature signature = ModelInspector::inspect(located.onnx_file).signature;
  auto text_settings = pipeline::read_text_settings(located.onnx_file, nullptr, signature);
  const bool is_judge = text_settings && text_settings->task != pipeline::Task::none;
  std::optional<evaluation::MadeVariant> variant;
  const auto sentences = is_judge ? std::nullopt : std::optional(model);
  if (flags.quantize.given()) {
    variant = evaluation::make_variant(flags.quantize, flags.load, settings.options, located.onnx_file, sentences,
                                       scratch, listener);
  }
  evaluation::FolderVariants beside = evaluation::folder_variants(folder, located.onnx_file, sentences, flags.quantize,
                                                                  flags.load, settings.options, listener);
  std::vector<evaluation::KeptVariant> kept;
  if (variant) kept.push_back(variant->kept);
  for (const evaluation::FoundVariant& found : beside.found) kept.push_back(found.kept);
  for (const evaluation::KeptVariant& one : kept) {
    add_to(content, one);
    add_to(settings.options, one);
  }
  Runtime runtime(located.onnx_file, settings.options);
  content.compared_provider = evaluation::compare_own_provider(located.onnx_file, runtime.info(), settings.options);
  Verdict verdict = runtime.verdict();
  provider::note_packaged(content.compared_provider, verdict);
  if (is_judge) {
    const pipeline::Pipeline pipeline(*std::move(text_settings), signature);
    const std::string task(name_of(pipeline::task_names, pipeline.settings().task));
    return {.stored = store.add(content, names),
            .task = task,
            .verdict = std::move(verdict),
            .variant = std::move(variant),
            .beside = std::move(beside)};
  }
  const embedding::TextEmbedder embedder(std::move(model), std::move(runtime));
  return {.stored = store.add(content, names),
          .dimension = embedder.encoder().dimension(),
          .task = {},
          .verdict = std::move(verdict),
          .variant = std::move(variant),
          .beside = std::move(beside)};
}

}  // namespace

// A folder of images: what its gpux.yml says, or what its settings come to.
std::string image_project_text(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::is_regular_file(folder / project_file_name, unreadable)) return read_file(folder / project_file_name);
  const std::optional<checkpoint::ImageProject> project = checkpoint::read_image_project(folder);
  return project ? checkpoint::project_text(*project) : std::string();
}

namespace {

[[noreturn]] void refuse_quantizing(const ProjectFile& project) {
  throw Error(
      ErrorCode::usage,
      project.image_tower.empty()
          ? format_message(
                "{} of an import compares vectors of texts, and this model takes images: 'gpux import … -o NEW', "
                "then 'gpux build NEW --quantize … --samples PLACE' with inputs of yours",
                setting_named("quantize"))
          : format_message("{}: the model has a text tower and an image tower, and variants of such models are not "
                           "supported",
                           setting_named("quantize")));
}

// Its vectors are compared with those of images, which have that dimension.
void check_text_tower(const fs::path& folder, const LocatedModel& located, const LoadSettings& settings,
                      std::size_t dimension) {
  std::optional<checkpoint::SentenceModel> sentences = checkpoint::sentence_model_of(located.onnx_file);
  if (!sentences) throw Error(ErrorCode::not_found, format_message("'{}' has no tokenizer.json", file_at(folder)));
  const embedding::TextEmbedder texts(*std::move(sentences), load_located(located, settings));
  if (texts.encoder().dimension() == dimension) return;
  throw Error(ErrorCode::invalid_model,
              fmt::format("vectors of texts have {} dimensions, those of images {}: they cannot be compared",
                          texts.encoder().dimension(), dimension));
}

}  // namespace

ImportedPackage store_image_folder(const fs::path& folder, const std::string& project_text,
                                   const std::vector<Reference>& names, const ImportRequest& flags,
                                   const fs::path& scratch, Store& store) {
  ProjectFile project = parse_project_file(project_text, folder / project_file_name, author_of(flags.origin.source));
  if (flags.quantize.given()) refuse_quantizing(project);
  LocatedModel located{.onnx_file = project.source,
                       .package_folder = {},
                       .name = names.front().name,
                       .version = names.front().tag == "latest" ? "1.0.0" : names.front().tag,
                       .project = std::move(project),
                       .stored = {},
                       .pulled_from = flags.origin.source,
                       .provider = {},
                       .note = {}};
  PackageContent content = package_content(located, flags.load.provider);
  content.origin = flags.origin;
  // Where the folder has no gpux.yml, the package gets one.
  write_file_atomically(scratch / project_file_name, project_text);
  for (PackageFile& file : content.files) {
    if (file.name == project_file_name) file.source = scratch / project_file_name;
  }
  const LoadSettings settings = resolve_check(flags.load, located);
  if (flags.load.precision) content.precision = settings.options.precision;
  const std::optional<ImageTower> tower = image_tower_of(located);
  if (!tower) {
    throw Error(ErrorCode::invalid_config,
                format_message("'{}': gpux.yml does not say how images become the model's input", file_at(folder)));
  }
  const bool is_classifier = located.project->outputs && !located.project->outputs->front().labels.empty();
  ImageInput input = image_input_of(located, *tower, {});
  Runtime runtime = load_image_tower(located, *tower, settings);
  ImportedPackage package{.stored = {},
                          .dimension = 0,
                          .task = {},
                          .takes_images = true,
                          .has_two_towers = has_image_tower(located),
                          .verdict = runtime.verdict(),
                          .variant = {},
                          .beside = {}};
  if (is_classifier) {
    package.task = "image-classification";
  } else {
    const embedding::ImageEmbedder embedder(tower->facts, std::move(input), std::move(runtime));
    package.dimension = embedder.encoder().dimension();
    if (package.has_two_towers) check_text_tower(folder, located, settings, package.dimension);
  }
  package.stored = store.add(content, names);
  return package;
}

namespace {

// Of the transformer, or else of the whole.
fs::path tokenizer_in(const fs::path& folder) {
  std::error_code unreadable;
  const fs::path beside = checkpoint::transformer_folder_of(folder) / "tokenizer.json";
  return fs::is_regular_file(beside, unreadable) ? beside : folder / "tokenizer.json";
}

// What is found where the model is stored is found before it is converted.
void require_readable_texts(const fs::path& folder) {
  if (checkpoint::has_image_preprocessing(folder) || checkpoint::is_decoder_folder(folder)) return;
  (void)pipeline::require_text_settings(folder);
  (void)checkpoint::read_sentence_settings(folder);
  (void)embedding::open_tokenizer(tokenizer_in(folder));
}

// The library of the model accepts a tokenizer with more tokens than the model, until a text has one of them.
void warn_of_tokens(const fs::path& folder) {
  std::error_code unreadable;
  try {
    const std::uint64_t rows = checkpoint::vocabulary_of(checkpoint::transformer_folder_of(folder));
    const fs::path file = tokenizer_in(folder);
    if (rows == 0 || !fs::is_regular_file(file, unreadable)) return;
    const std::string note = text::note_on_embedded(embedding::open_tokenizer(file), rows);
    if (!note.empty()) log::warning("{}: {}", file.string(), note);
  } catch (const Error&) {
    // What reads texts with it says what is wrong.
  }
}

}  // namespace

// What the generator refuses when it is loaded.
void require_supported_generation(const fs::path& folder) {
  std::error_code unreadable;
  if (!checkpoint::is_decoder_folder(folder) || fs::exists(folder / "genai_config.json", unreadable)) return;
  (void)generation::sampling_in(JsonSettings(folder / "generation_config.json"));
}

std::uint64_t require_importable_folder(const fs::path& folder, bool is_onnx, const std::string& reranker) {
  if (reranker.empty()) require_supported_generation(folder);
  if (!is_onnx) {
    const auto as_reranker = reranker_folder(folder, reranker, is_onnx);
    return in_place_of(folder, as_reranker, [](const fs::path& read) {
      const std::uint64_t bytes = importer::require_importable(read);
      require_readable_texts(read);
      return bytes;
    });
  }
  if (!reranker.empty()) (void)reranker_folder(folder, reranker, is_onnx);
  // Whether such a folder is a model of images is decided by the inputs of its ONNX file.
  if (checkpoint::has_image_preprocessing(folder)) return 0;
  const checkpoint::SentenceModel model = checkpoint::read_sentence_settings(folder);
  checkpoint::require_tokenizer(folder, model.transformer_folder);
  require_readable_texts(folder);
  return 0;
}

// Where it has weights besides, they come before ONNX files of other names: those are in other precisions.
bool is_onnx_folder(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::exists(folder / "genai_config.json", unreadable)) return true;
  const fs::path transformer = checkpoint::transformer_folder_of(folder);
  for (const fs::path& place : {folder, transformer}) {
    if (fs::exists(place / "model.onnx", unreadable) || fs::exists(place / "onnx/model.onnx", unreadable)) return true;
  }
  for (const char* place : {"", "onnx"}) {
    if (fs::exists(folder / place / "text_model.onnx", unreadable)) return true;
  }
  const bool has_others = !exported_files_in(folder).empty() || !exported_files_in(transformer).empty();
  return has_others && !checkpoint::safetensors_in(transformer);
}

// Whether there is something to be compared with the model.
bool has_variants(const ImportRequest& flags) {
  std::error_code unreadable;
  fs::path file = fs::path(flags.folder) / (flags.file.empty() ? "model.onnx" : flags.file);
  if (flags.file.empty() && !fs::exists(file, unreadable)) file = fs::path(flags.folder) / "onnx/model.onnx";
  return !evaluation::files_beside(flags.folder, file).variants.empty();
}

namespace {

ImportedPackage store_any_folder(const fs::path& folder, const std::vector<Reference>& names,
                                 const ImportRequest& flags, const fs::path& scratch, Store& store,
                                 const evaluation::VariantListener& listener) {
  const std::string project = image_project_text(folder);
  if (!project.empty()) return store_image_folder(folder, project, names, flags, scratch, store);
  if (checkpoint::is_decoder_folder(folder)) return store_decoder_folder(folder, names, flags, store);
  return store_folder(folder, names, flags, scratch, store, listener);
}

// On float weights; those of a GGUF file are blocks already.
void add_advice(const fs::path& folder, importer::ImportedModel& imported) {
  if (!imported.weights.empty()) return;
  Message advice = generation::quantization_advice(bytes_below(folder), usable_memory_bytes(Machine::this_one()));
  if (!advice.empty()) imported.notes.push_back(std::move(advice));
}

ImportedFolder import_by(const fs::path& scratch, const ImportRequest& flags, Store& store,
                         const evaluation::VariantListener& listener) {
  std::error_code unreadable;
  if (fs::is_regular_file(flags.folder, unreadable) && !importer::gguf::is_gguf_file(flags.folder)) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' is no GGUF file; accepted: a folder as Hugging Face's libraries write it, or a GGUF "
                            "file",
                            flags.folder));
  }
  const bool is_onnx = !flags.file.empty() || is_onnx_folder(flags.folder);
  std::vector<Reference> names;
  for (const std::string& tag : flags.tags) names.push_back(parse_reference(tag));
  std::optional<importer::ImportedModel> imported;
  std::optional<generation::QuantizationAgreement> quantization;
  fs::path folder = flags.folder;
  const auto as_reranker = reranker_folder(folder, flags.reranker, is_onnx);
  importer::DecoderImport decoder;
  if (is_onnx && flags.context_length != 0) {
    throw Error(ErrorCode::usage, format_message("{}: '{}' is ONNX already, and its positions cannot be changed",
                                                 setting_named("context_length"), flags.folder));
  }
  if (flags.quantize.given() && fs::is_regular_file(folder, unreadable)) {
    throw Error(ErrorCode::usage, format_message("{}: '{}' is a GGUF file, which keeps the precision of its weights",
                                                 setting_named("quantize"), flags.folder));
  }
  if (!as_reranker && checkpoint::is_decoder_folder(folder)) {
    if (is_onnx && flags.quantize.given()) {
      throw Error(
          ErrorCode::usage,
          format_message("{}: the weights of '{}' are ONNX already, and those of a model.safetensors can be quantized",
                         setting_named("quantize"), flags.folder));
    }
    decoder = decoder_import_of(flags.quantize, flags.load);
  } else if (flags.quantize.has_blocks()) {
    throw Error(
        ErrorCode::usage,
        format_message("{} int4, {} and {}: '{}' is no model that generates text, whose config.json has …ForCausalLM",
                       setting_named("quantize"), setting_named("quantize_block"),
                       setting_named("quantize_zero_points"), flags.folder));
  }
  decoder.context_length = flags.context_length;
  if (decoder.blocks) {
    decoder.check = [&](const fs::path& made) { quantization = check_quantized(folder, made, flags, scratch); };
  }
  if (fs::is_directory(folder, unreadable)) warn_of_tokens(folder);
  // What is ONNX already goes into the store as it is; import_model() refuses to make a folder of it.
  if (!flags.output.empty() || !is_onnx) {
    const auto require_texts = [](const fs::path& read) { require_readable_texts(read); };
    if (!importer::gguf::is_gguf_file(folder)) in_place_of(folder, as_reranker, require_texts);
    const fs::path target = flags.output.empty() ? scratch / converted_folder : fs::path(flags.output);
    imported = in_place_of(folder, as_reranker,
                           [&](const fs::path& read) { return importer::import_model(read, target, decoder); });
    folder = target;
    if (checkpoint::is_decoder_folder(folder) && !decoder.blocks) add_advice(folder, *imported);
  }
  std::optional<ImportedPackage> package;
  if (!names.empty()) package = store_any_folder(folder, names, flags, scratch, store, listener);
  return {.converted = std::move(imported),
          .quantization = std::move(quantization),
          .package = std::move(package),
          .names = std::move(names)};
}

}  // namespace

ImportedFolder import_folder(const ImportRequest& flags, Store& store, const evaluation::VariantListener& listener) {
  const ScratchFolder scratch;
  try {
    return import_by(scratch.path(), flags, store, listener);
  } catch (const Error& error) {
    const Error known = in_source_of(error, scratch.path() / converted_folder, flags.folder);
    rethrow_as(error, in_source_of(known, scratch.path(), flags.folder));
  }
}

}  // namespace gpux
