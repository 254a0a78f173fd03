#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/encoder_flags.h"
#include "cli/print_json.h"
#include "cli/progress.h"
#include "cli/search_images.h"
#include "daemon/event_features.h"
#include "embedding/embed_all.h"
#include "embedding/image_paths.h"
#include "embedding/representation_file.h"
#include "embedding/text_source.h"
#include "embedding/vector_file.h"
#include "gpux/error.h"
#include "library/collection_texts.h"
#include "model/level_choice.h"
#include "model/open_image_encoder.h"

namespace gpux::cli {
namespace {

struct EmbedFlags {
  EncoderFlags encoder;
  std::string output, encoding = "float";
  std::string store;                     ///< --to
  std::string features;                  ///< --features
  std::vector<CLI::Option*> of_a_model;  ///< what says which model, and how it makes vectors
  bool is_hybrid = false;
  embedding::TextForm form;
  ModelArgument words;
  std::vector<std::string> texts;   ///< the words without the model
  std::vector<std::string> images;  ///< --images
  unsigned workers = 0;
  bool resume = false, token_names = false;
};

// What vectors depend on beside the ONNX file.
Json run_of(const EmbedFlags& flags, const OpenEncoder& encoder) {
  const checkpoint::SentenceModel& model = encoder.embedder->encoder().model();
  Json run{{"tokenizer", "sha256:" + sha256_of_file(model.tokenizer_file)},
           {"prompt", encoder.options.prompt.value_or(model.default_prompt)},
           {"task", nullptr},
           {"max_tokens", encoder.options.max_tokens},
           {"normalize", nullptr},
           {"batching", encoder.embedder->encoder().batching() == TextBatching::exact ? "exact" : "throughput"},
           {"texts", flags.texts},
           {"field", flags.form.field},
           {"column", flags.form.column}};
  if (const auto task = encoder.embedder->encoder().task(encoder.options)) run["task"] = model.tasks.at(*task);
  if (encoder.options.normalize) run["normalize"] = *encoder.options.normalize;
  return run;
}

// Those whose vectors are there already.
void pass_over(std::uint64_t count, const embedding::TextSource& texts, const std::string& output) {
  std::string text;
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    if (texts(text)) continue;
    throw Error(ErrorCode::invalid_input, fmt::format("--resume: '{}.part' has {}; the input has {}", output,
                                                      counted(count, "vector"), counted(passed, "text")));
  }
}

// Of the texts as they come, of which `kept` were embedded before; `add` gets each.
void run_all(const EmbedFlags& flags, const OpenEncoder& encoder, const embedding::Texts& texts, std::uint64_t kept,
             const embedding::EmbeddingSink& add, const Context& context) {
  const auto start = std::chrono::steady_clock::now();
  const unsigned workers = flags.workers != 0 ? flags.workers : encoder.workers;
  std::optional<Progress> progress;
  // Vectors on the same terminal show it themselves.
  if (!flags.output.empty() || ::isatty(STDOUT_FILENO) == 0) progress.emplace(context, "texts", texts.share_read);
  std::uint64_t done = 0;
  const embedding::EmbeddingSink keep = [&](std::string_view text, const embedding::Embedding& embedding) {
    add(text, embedding);
    if (progress) progress->show(++done);
  };
  const std::uint64_t count = embedding::embed_all(*encoder.embedder, encoder.options, texts.next, workers, keep, kept);
  progress.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string before = kept == 0 ? "" : fmt::format(" behind {} that were there", kept);
  say(context, fmt::format("embedded {}{} in {:.2f} s: {:.1f} texts/s", counted(count, "text"), before, seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9)));
}

void write_vectors(const EmbedFlags& flags, const OpenEncoder& encoder, embedding::VectorTarget target,
                   const embedding::Texts& texts, const Context& context) {
  embedding::VectorWriter writer(std::move(target),
                                 {.model = encoder.embedder->encoder().model().name,
                                  .level = encoder.level,
                                  .digest = encoder.digest,
                                  .dimension = encoder.dimension,
                                  .run = run_of(flags, encoder)},
                                 print_data);
  pass_over(writer.kept(), texts.next, flags.output);
  run_all(
      flags, encoder, texts, writer.kept(),
      [&](std::string_view text, const embedding::Embedding& embedding) { writer.add(text, embedding.values); },
      context);
  writer.finish();
}

void write_representations(const EmbedFlags& flags, const OpenEncoder& encoder, const embedding::Texts& texts,
                           const Context& context) {
  const embedding::SentenceEncoder& model = encoder.embedder->encoder();
  embedding::RepresentationWriter::Options options{
      .representation = model.representation(encoder.options), .output = flags.output, .token_names = nullptr};
  const auto refuse = [&](std::string_view flag, std::string_view accepted) {
    throw Error(ErrorCode::usage, fmt::format("{} is for dense vectors, and '{}' makes {} vectors here{}", flag,
                                              model.model().name, name_of(options.representation), accepted));
  };
  if (flags.resume) refuse("--resume", "");
  if (flags.encoding != "float") refuse("--encoding " + flags.encoding, "; accepted: float");
  const bool is_sparse = options.representation == embedding::Representation::sparse;
  if (flags.token_names) {
    if (!is_sparse || flags.output.ends_with(".npz")) {
      throw Error(ErrorCode::usage, "--token-names is for JSON lines of sparse vectors");
    }
    options.token_names = [&model](std::uint32_t id) { return model.tokenizer().token(id).value_or(""); };
  }
  embedding::RepresentationWriter writer(std::move(options),
                                         {.model = model.model().name,
                                          .level = encoder.level,
                                          .digest = encoder.digest,
                                          .dimension = encoder.dimension,
                                          .run = {}},
                                         print_data);
  run_all(
      flags, encoder, texts, 0,
      [&](std::string_view /*text*/, const embedding::Embedding& embedding) { writer.add(embedding); }, context);
  writer.finish();
}

// Of --images, or of the words where they are images. Error usage where texts and images are mixed.
std::vector<std::string> image_paths(const EmbedFlags& flags, Context& context) {
  std::vector<std::string> paths = flags.images;
  for (const std::string& text : flags.texts) {
    if (embedding::is_image_argument(text)) paths.push_back(text.substr(1));
  }
  if (paths.empty()) return {};
  if (paths.size() != flags.images.size() + flags.texts.size()) {
    throw Error(ErrorCode::usage, "embed: texts and images are embedded in calls of their own");
  }
  for (const auto* form : {&flags.form.field, &flags.form.column}) {
    if (!form->empty())
      throw Error(ErrorCode::usage, "embed: --field and --column apply to texts, and these are images");
  }
  embedding::ImagePaths images = embedding::images_in(paths);
  if (images.skipped != 0) {
    say(context, fmt::format("skipped {} that are not .jpg, .jpeg, .png or .webp", counted(images.skipped, "file")));
  }
  return std::move(images.files);
}

void report(const EmbedFlags& flags, const Context& context, std::string_view what, std::uint64_t count,
            std::uint64_t kept, std::chrono::steady_clock::time_point start) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string behind = kept == 0 ? "" : fmt::format(" behind {} that were there", kept);
  say(context, fmt::format("embedded {}{} in {:.2f} s: {:.1f} {}s/s", counted(count, what), behind, seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9), what));
  if (!flags.output.empty()) say(context, fmt::format("wrote {}", flags.output));
}

void embed_images(const EmbedFlags& flags, std::vector<std::string> images, Context& context) {
  using Form = embedding::VectorTarget::Form;
  embedding::VectorTarget target = embedding::vector_target(flags.output, flags.encoding, flags.resume);
  if (target.form == Form::document || target.form == Form::folder) {
    throw Error(ErrorCode::usage,
                fmt::format("--output '{}' is for vectors of texts; for images .jsonl, .npy and .f32 are accepted",
                            flags.output));
  }
  const OpenImageEncoder encoder = open_image_encoder(flags.encoder, context);
  Json run{{"images", images}, {"normalize", nullptr}};
  if (flags.encoder.normalize) run["normalize"] = *flags.encoder.normalize;
  embedding::VectorWriter writer(std::move(target),
                                 {.model = encoder.name,
                                  .level = {},
                                  .digest = encoder.digest,
                                  .dimension = encoder.dimension,
                                  .are_images = true,
                                  .run = std::move(run)},
                                 print_data);
  if (writer.kept() > images.size()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("--resume: '{}.part' has {}; the input has {}", flags.output,
                            counted(writer.kept(), "vector"), counted(images.size(), "image")));
  }
  const auto rest = std::span<const std::string>(images).subspan(writer.kept());
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  std::atomic<std::size_t> done = 0;
  const auto share = [&] { return std::optional(static_cast<double>(done) / static_cast<double>(rest.size())); };
  if (!flags.output.empty() || ::isatty(STDOUT_FILENO) == 0) progress.emplace(context, "images", share);
  const auto keep = [&](std::string_view image, std::span<const float> vector) {
    writer.add(image, vector);
    ++done;
    if (progress) progress->show(done);
  };
  embedding::embed_images(*encoder.embedder, encoder.options, rest,
                          flags.workers != 0 ? flags.workers : encoder.workers, keep);
  progress.reset();
  writer.finish();
  report(flags, context, "image", rest.size(), writer.kept(), start);
}

// --to instead of a file: what is for files, and for other vectors, is refused.
void check_store_flags(const EmbedFlags& flags) {
  const auto refuse = [](std::string_view flag) {
    throw Error(ErrorCode::usage, fmt::format("--to stores dense vectors of texts, without {}", flag));
  };
  if (!flags.output.empty()) refuse("--output");
  if (flags.encoding != "float") refuse("--encoding");
  if (flags.resume) refuse("--resume; a text that is stored again is the same point");
  if (flags.token_names) refuse("--token-names");
  if (flags.encoder.representation.value_or(embedding::Representation::dense) != embedding::Representation::dense) {
    refuse("--sparse and --multi-vector");
  }
}

void embed_to_store(const EmbedFlags& flags, const vector_store::StoreUrl& url, const OpenEncoder& encoder,
                    const embedding::Texts& texts, const Context& context) {
  const auto store = vector_store::open_store(url);
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  progress.emplace(context, "texts", texts.share_read);
  const StoredTextSource next = [&](std::string& text, nlohmann::json& payload) {
    if (!texts.next(text)) return false;
    payload = texts.fields();
    return true;
  };
  std::uint64_t done = 0;
  const std::uint64_t count = store_texts(*store, encoder,
                                          {.options = encoder.options,
                                           .is_hybrid = flags.is_hybrid,
                                           .workers = flags.workers != 0 ? flags.workers : encoder.workers},
                                          next, [&] { progress->show(++done); });
  progress.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  store->finish();
  say(context, fmt::format("embedded {} in {:.2f} s: {:.1f} texts/s; '{}' has {}", counted(count, "text"), seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9), store->shown(),
                           counted(store->count(), "vector")));
}

// Whether texts are events, of which features are made without a model. Error usage where a model is asked for, too.
bool asks_for_features(const EmbedFlags& flags) {
  if (!wants_features(flags.features) || !asks_for_nothing(flags.encoder)) {
    if (flags.features != "heuristic") return false;
    throw Error(ErrorCode::usage, "--features heuristic is for --level none, and a model or another level is given");
  }
  for (const CLI::Option* option : flags.of_a_model) {
    if (option->count() == 0 || option->get_name() == "--level") continue;
    throw Error(ErrorCode::usage,
                fmt::format("features of events are made without a model, and without {}", option->get_name()));
  }
  return true;
}

void embed_features(const EmbedFlags& flags, const std::optional<vector_store::StoreUrl>& url, const Context& context) {
  const auto refuse = [](std::string_view flag) {
    throw Error(ErrorCode::usage, fmt::format("features of events are made without {}", flag));
  };
  if (flags.is_hybrid) refuse("--hybrid");
  if (flags.workers != 0) refuse("--workers");
  if (flags.token_names) refuse("--token-names");
  if (flags.encoder.representation.value_or(embedding::Representation::dense) != embedding::Representation::dense) {
    refuse("--sparse and --multi-vector");
  }
  if (flags.encoder.sparse.top_k != 0 || flags.encoder.sparse.threshold != 0) {
    refuse("--sparse-top-k and --sparse-threshold");
  }
  const auto start = std::chrono::steady_clock::now();
  const embedding::Texts texts = embedding::texts_of(flags.texts, flags.form);
  std::unique_ptr<vector_store::VectorStore> store;
  std::optional<TextPoints> points;
  std::optional<embedding::VectorWriter> vectors;
  std::uint64_t kept = 0;
  if (url) {
    store = vector_store::open_store(*url);
    store->create(daemon::features_facts());
    points.emplace(*store);
  } else {
    vectors.emplace(embedding::vector_target(flags.output, flags.encoding, flags.resume),
                    embedding::VectorSource{
                        .model = std::string(daemon::features_model),
                        .level = std::string(daemon::features_level),
                        .digest = daemon::features_digest(),
                        .dimension = daemon::features_dimension,
                        .run = {{"texts", flags.texts}, {"field", flags.form.field}, {"column", flags.form.column}}},
                    print_data);
    kept = vectors->kept();
    pass_over(kept, texts.next, flags.output);
  }
  std::uint64_t count = 0;
  for (std::string text; texts.next(text);) {
    std::vector<float> features;
    ++count;
    try {
      features = daemon::features_of(daemon::event_of_text(text));
    } catch (const Error& error) {
      throw error.within(fmt::format("text {}", kept + count));
    }
    if (points) {
      points->add(text, std::move(features), {}, texts.fields());
    } else {
      vectors->add(text, features);
    }
  }
  if (points) {
    points->put();
    store->finish();
  }
  if (vectors) vectors->finish();
  report(flags, context, "text", count, kept, start);
}

void embed(EmbedFlags& flags, Context& context) {
  if (context.table) throw Error(ErrorCode::usage, "--table: embed prints its vectors as JSON lines");
  std::optional<vector_store::StoreUrl> store;
  if (flags.is_hybrid && flags.store.empty())
    throw Error(ErrorCode::usage, "--hybrid is for a collection, which --to names");
  if (!flags.store.empty()) {
    store = vector_store::parse_store_url(flags.store);
    check_store_flags(flags);
    flags.form.keeps_fields = true;
    flags.encoder.representation = embedding::Representation::dense;
  }
  if (flags.features == "heuristic" && flags.encoder.model.empty() && flags.encoder.level.empty() &&
      choose_level({}).level == nullptr) {
    flags.encoder.level = "none";
  }
  flags.texts = place_model(flags.words, flags.encoder);
  if (std::vector<std::string> images = image_paths(flags, context); !images.empty()) {
    if (flags.token_names) throw Error(ErrorCode::usage, "--token-names is for JSON lines of sparse vectors");
    if (store) throw Error(ErrorCode::usage, "--to stores vectors of texts, and these are images");
    return embed_images(flags, std::move(images), context);
  }
  if (asks_for_features(flags)) return embed_features(flags, store, context);
  if (asks_for_nothing(flags.encoder)) {
    say(context, "level none: no vectors are computed");
    return;
  }
  // What can be known before the model is loaded is not left until its vectors are there.
  const bool is_archive = flags.output.ends_with(".npz");
  std::optional<embedding::VectorTarget> target;
  if (flags.encoder.representation.value_or(embedding::Representation::dense) == embedding::Representation::dense &&
      !is_archive) {
    target = embedding::vector_target(flags.output, flags.encoding, flags.resume);
  }
  const embedding::Texts texts = embedding::texts_of(flags.texts, flags.form);
  const OpenEncoder encoder = open_encoder(flags.encoder, context);
  if (store) return embed_to_store(flags, *store, encoder, texts, context);
  if (encoder.embedder->encoder().representation(encoder.options) != embedding::Representation::dense) {
    write_representations(flags, encoder, texts, context);
  } else {
    if (flags.token_names) throw Error(ErrorCode::usage, "--token-names is for JSON lines of sparse vectors");
    if (!target) target = embedding::vector_target(flags.output, flags.encoding, flags.resume);
    write_vectors(flags, encoder, *std::move(target), texts, context);
  }
  if (!flags.output.empty()) say(context, fmt::format("wrote {}", flags.output));
}

}  // namespace

void add_embed(CLI::App& program, Context& context) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* command = add_command(program, context, "embed", "Turn texts or images into embedding vectors");
  command->get_option("--table")->group("");
  command->add_option("MODEL", flags->words.first,
                      "the model, unless -m or --level names it: then it is the first TEXT");
  add_words(*command, "TEXT", flags->words.rest,
            "texts; @FILE: each line of a file; -: of standard input (default); @IMAGE, @FOLDER: images");
  command
      ->add_option("--images", flags->images, "images: a file, a folder, or a list of paths, one per line; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--features", flags->features,
          "heuristic: with --level none, texts are events, and 64 numbers are counted from each without a model "
          "(also GPUX_FEATURES)")
      ->check(CLI::IsMember({"none", "heuristic"}));
  const std::size_t before = command->get_options().size();
  add_encoder_flags(*command, flags->encoder);
  command->add_flag_function(
      "--normalize,!--no-normalize", [flags](std::int64_t count) { flags->encoder.normalize = count > 0; },
      "to length 1 (default: with --dimensions yes, else as the model's folder specifies)");
  flags->of_a_model = command->get_options();
  flags->of_a_model.erase(flags->of_a_model.begin(), flags->of_a_model.begin() + static_cast<std::ptrdiff_t>(before));
  command->add_option(
      "-o,--output", flags->output,
      "write to FILE.{jsonl,npy,f32,vec}, or one .vec per text to FOLDER/, instead of printing JSON lines; sparse and "
      "multi-vector: FILE.{jsonl,npz}");
  command->add_option("--to", flags->store,
                      "store in a collection: postgres://USER@HOST/DATABASE?collection=NAME, "
                      "qdrant://HOST/COLLECTION, file:PATH");
  command->add_flag("--hybrid", flags->is_hybrid, "--to: store the model's sparse vectors, too (BGE-M3)");
  add_representation_flags(*command, flags->encoder);
  command->add_flag("--token-names", flags->token_names, "print the token of each weight of a sparse vector, too");
  command->add_option("--encoding", flags->encoding, "encoding of the vectors: float, int8, binary, base64")
      ->check(CLI::IsMember({"float", "int8", "binary", "base64"}));
  command->add_flag("--resume", flags->resume, "resume an interrupted call that wrote to -o FILE.{jsonl,npy,f32}");
  CLI::Option* field =
      command->add_option("--field", flags->form.field, "lines are JSON objects, and the text is in this field");
  command->add_option("--column", flags->form.column, "files are CSV with a header, and the text is in this column")
      ->excludes(field);
  command->add_option("--workers", flags->workers, "texts embedded in parallel (default: processors of this process)")
      ->check(CLI::Range(1U, 1024U));
  command->footer(
      "Examples:\n"
      "  gpux embed all-MiniLM-L6-v2 'a sentence' 'and another'\n"
      "  gpux embed clip @photos/ -o images.npy\n"
      "  gpux embed all-MiniLM-L6-v2 --field text @items.jsonl -o vectors.npy --resume\n"
      "  gpux embed all-MiniLM-L6-v2 --field text @items.jsonl --to postgres://localhost/shop?collection=items\n"
      "  gpux embed splade-v3 --sparse --sparse-top-k 32 --token-names 'a sentence'\n"
      "  gpux embed colbertv2 --prompt query 'what runs?'");
  command->callback([flags, &context] { embed(*flags, context); });
}

}  // namespace gpux::cli
