#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/counted.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "base/standard_input.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/encoder_flags.h"
#include "cli/inputs.h"
#include "cli/print_json.h"
#include "cli/search_images.h"
#include "cli/search_store.h"
#include "cli/short_text.h"
#include "cli/table.h"
#include "embedding/image_paths.h"
#include "embedding/representation_file.h"
#include "embedding/stored_vectors.h"
#include "embedding/text_source.h"
#include "embedding/top_k.h"
#include "gpux/error.h"
#include "model/level_choice.h"
#include "tensor/npy.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;
using embedding::StoredVectors;

struct SearchFlags {
  EncoderFlags encoder;
  std::optional<std::string> model;  ///< the first word behind the command, which may be the query
  std::optional<std::string> query;
  std::vector<std::string> among;  ///< texts as embed reads them, searched instead of `place`
  std::string place, vector, texts;
  std::string text_prompt;          ///< of `among`; empty: the model's default
  std::string query_image;          ///< the path of the image that is searched for; empty: `query` is a text
  std::vector<std::string> images;  ///< paths: searched, or those of the vectors in `place`
  embedding::TextForm form;
  std::size_t top = 10;
  unsigned workers = 0;
  StoreSearch store;                     ///< --in
  std::vector<CLI::Option*> about_text;  ///< what says which text, and how it becomes a vector
};

/// A row that was found, and what is known of it.
struct Result {
  embedding::Match match;
  std::optional<std::string> id, hash, text, image;
};

// --in searches a collection for a text or a vector, and has its texts.
void check_store_flags(const SearchFlags& flags) {
  if (flags.store.url.empty()) {
    const std::pair<bool, std::string_view> of_collections[]{{!flags.store.where.empty(), "--where"},
                                                             {flags.store.is_exact, "--exact"},
                                                             {flags.store.is_hybrid, "--hybrid"},
                                                             {!flags.store.reranker.empty(), "--rerank"}};
    for (const auto& [is_given, flag] : of_collections) {
      if (is_given)
        throw Error(ErrorCode::usage, fmt::format("search: {} is for a collection, which --in names", flag));
    }
    return;
  }
  const std::pair<bool, std::string_view> refused[]{{!flags.place.empty(), "--index"},
                                                    {!flags.among.empty(), "texts behind the query"},
                                                    {!flags.images.empty(), "--images"},
                                                    {!flags.texts.empty(), "--texts"},
                                                    {flags.workers != 0, "--workers"}};
  if (!flags.vector.empty() && (flags.store.is_hybrid || !flags.store.reranker.empty())) {
    throw Error(ErrorCode::usage, fmt::format("search: {} needs a text, and not --query-vector",
                                              flags.store.is_hybrid ? "--hybrid" : "--rerank"));
  }
  for (const auto& [is_given, flag] : refused) {
    if (is_given) throw Error(ErrorCode::usage, fmt::format("search: give --in or {}, not both", flag));
  }
  if (flags.encoder.representation.value_or(embedding::Representation::dense) != embedding::Representation::dense) {
    throw Error(ErrorCode::usage, "search: --in searches dense vectors, without --sparse and --multi-vector");
  }
}

void check_flags(const SearchFlags& flags) {
  check_store_flags(flags);
  if (flags.store.url.empty() && flags.place.empty() && flags.among.empty() && flags.images.empty()) {
    throw Error(ErrorCode::usage,
                "search: give --index FILE.{npy,jsonl,vec} or FOLDER, where the vectors are, --in URL, or texts behind "
                "the query, "
                "or --images; 'gpux images' lists models");
  }
  if (!flags.images.empty() && (!flags.among.empty() || !flags.texts.empty())) {
    throw Error(ErrorCode::usage, "search: give texts or --images, not both");
  }
  if (!flags.place.empty() && !flags.among.empty()) {
    throw Error(ErrorCode::usage, "search: give --index, or texts behind the query, not both");
  }
  const auto refuse_with_vector = [](std::string_view what) {
    throw Error(ErrorCode::usage, fmt::format("search: --query-vector is searched for as it is, without {}", what));
  };
  for (const CLI::Option* option : flags.about_text) {
    if (!flags.vector.empty() && option->count() != 0) refuse_with_vector(option->get_name());
  }
  if (!flags.vector.empty() && flags.query) refuse_with_vector("a text");
  if (!flags.query && flags.vector.empty()) {
    throw Error(ErrorCode::usage,
                flags.encoder.model_is_word
                    ? fmt::format("search: '{}' is the model, and there is no text to search for: give MODEL QUERY, or "
                                  "-m MODEL QUERY",
                                  flags.encoder.model)
                    : "search: give a text, and the model of the vectors; or --query-vector FILE.npy");
  }
  const bool has_model = !flags.encoder.model.empty() || choose_level(flags.encoder.level).level != nullptr;
  if (flags.query && !has_model) {
    throw Error(ErrorCode::usage,
                "search: a text needs the model or --level that made the vectors; --query-vector FILE.npy needs none");
  }
  if (flags.query && is_standard_input(*flags.query) && std::ranges::any_of(flags.among, is_standard_input)) {
    throw Error(ErrorCode::usage, "search: standard input is read once: for the query or for the texts");
  }
  if (!flags.text_prompt.empty() && flags.among.empty()) {
    throw Error(ErrorCode::usage, "search: --text-prompt is of the texts behind the query, and there are none");
  }
  if (!flags.among.empty() && !flags.texts.empty()) {
    throw Error(ErrorCode::usage, "search: --texts FILE is for the vectors of --index; a file to embed here is @FILE");
  }
  if (flags.among.empty() && flags.texts.empty() && (!flags.form.field.empty() || !flags.form.column.empty())) {
    throw Error(ErrorCode::usage, fmt::format("{} says what the lines of --texts FILE are, which is not given",
                                              flags.form.field.empty() ? "--column" : "--field"));
  }
}

std::vector<float> read_query(const fs::path& file) {
  try {
    const std::string content = read_file(file);
    const Tensor vector = read_npy(std::as_bytes(std::span(content)), ElementType::float32);
    const Shape& shape = vector.shape();
    if (shape.size() != 1 && !(shape.size() == 2 && shape.front() == 1)) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("the array is {}; accepted: [dimension] or [1, dimension]", to_string(shape)));
    }
    const std::span<const float> elements = vector.as<float>();
    return {elements.begin(), elements.end()};
  } catch (const Error& error) {
    throw error.within("--query-vector " + file.string());
  }
}

void require_same_dimension(const SearchFlags& flags, const StoredVectors& vectors, std::size_t dimension) {
  if (dimension == vectors.dimension || vectors.rows == 0) return;
  const bool can_be_cut = flags.query && dimension > vectors.dimension;
  throw Error(ErrorCode::invalid_input,
              fmt::format("{} has {}, the vectors of '{}' have {}{}",
                          flags.query ? fmt::format("--model '{}'", flags.encoder.model) : "--query-vector",
                          counted(dimension, "dimension"), flags.place, vectors.dimension,
                          can_be_cut ? fmt::format("; --dimensions {} cuts the query's", vectors.dimension) : ""));
}

void require_same_model(const SearchFlags& flags, const StoredVectors& vectors, const std::string& name,
                        const std::string& digest) {
  if (vectors.digest.empty() || vectors.digest == "sha256:" + digest) return;
  throw Error(ErrorCode::invalid_input,
              fmt::format("the vectors of '{}' were made by model '{}' ({}), and '{}' is sha256:{}", flags.place,
                          vectors.model, vectors.digest, name, digest));
}

// How the model's folder says that its vectors are compared.
Similarity similarity_of(const OpenEncoder& encoder) {
  return encoder.embedder->encoder().model().similarity.value_or(Similarity::cosine);
}

/// A query's vector, and how it is compared.
struct DenseQuery {
  std::vector<float> vector;
  Similarity similarity = Similarity::cosine;
};

DenseQuery embed_query(const SearchFlags& flags, const StoredVectors& vectors, const Context& context) {
  if (!flags.query_image.empty()) {
    const OpenImageEncoder encoder = open_image_encoder(flags.encoder, context);
    require_same_model(flags, vectors, encoder.name, encoder.digest);
    require_same_dimension(flags, vectors, encoder.dimension);
    return {.vector = encoder.embedder->embed(flags.query_image, encoder.options), .similarity = encoder.similarity};
  }
  const OpenEncoder encoder = open_encoder(flags.encoder, context);
  require_same_model(flags, vectors, encoder.embedder->encoder().model().name, encoder.digest);
  require_same_dimension(flags, vectors, encoder.dimension);
  return {.vector = encoder.embedder->embed(flags.query.value_or(""), encoder.options),
          .similarity = similarity_of(encoder)};
}

DenseQuery dense_query(const SearchFlags& flags, const StoredVectors& vectors, const Context& context) {
  if (!flags.query) return {.vector = read_query(flags.vector)};
  return embed_query(flags, vectors, context);
}

unsigned workers_of(const SearchFlags& flags) {
  return flags.workers != 0 ? flags.workers : usable_processors(Machine::this_one());
}

// How the texts behind the query are embedded: --prompt is the query's.
embedding::EmbedOptions options_of_texts(const SearchFlags& flags, const OpenEncoder& encoder) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  embedding::EmbedOptions options = encoder.options;
  options.prompt.reset();
  options.task.reset();
  if (!flags.text_prompt.empty() && !embedding::choose_prompt(sentences.model(), flags.text_prompt, options)) {
    throw Error(ErrorCode::usage, fmt::format("--text-prompt '{}'; accepted: {}", flags.text_prompt,
                                              join(embedding::prompt_names(sentences.model()))));
  }
  // Vectors of an adapter are near to no others.
  if (encoder.options.task && !sentences.task(options)) {
    throw Error(ErrorCode::usage,
                fmt::format("--prompt {} gives the query an adapter, and the texts have none; choose theirs with "
                            "--text-prompt: {}",
                            flags.encoder.prompt, join(sentences.model().tasks)));
  }
  options.role = embedding::TextRole::document;
  sentences.check(options);
  return options;
}

// The texts' vectors, made here.
StoredVectors embed_texts(const SearchFlags& flags, const OpenEncoder& encoder) {
  StoredVectors vectors;
  vectors.dimension = encoder.dimension;
  const auto elements = std::make_shared<std::vector<float>>();
  const embedding::EmbedOptions options = options_of_texts(flags, encoder);
  const embedding::Texts texts = embedding::texts_of(flags.among, flags.form);
  vectors.rows =
      embedding::embed_all(*encoder.embedder, options, texts.next, flags.workers != 0 ? flags.workers : encoder.workers,
                           [&](std::string_view text, std::span<const float> vector) {
                             vectors.texts.emplace_back(text);
                             elements->insert(elements->end(), vector.begin(), vector.end());
                           });
  vectors.elements = *elements;
  vectors.owner = elements;
  return vectors;
}

// Those of `matches`, read from a file that has one for each row.
std::map<std::size_t, std::string> texts_of_rows(const SearchFlags& flags, const StoredVectors& vectors,
                                                 const std::vector<embedding::Match>& matches) {
  if (!vectors.hashes.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("--texts with --index '{}': its vectors are known by hashes, not by lines", flags.place));
  }
  std::map<std::size_t, std::string> texts;
  for (const embedding::Match& match : matches) texts[match.index];
  const embedding::Texts lines = embedding::texts_of({"@" + flags.texts}, flags.form);
  std::size_t row = 0;
  for (std::string text; lines.next(text); ++row) {
    if (const auto found = texts.find(row); found != texts.end()) found->second = text;
  }
  if (row != vectors.rows) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("--texts '{}' has {}, '{}' has {}", flags.texts, counted(row, "text"), flags.place,
                            counted(vectors.rows, "vector")));
  }
  return texts;
}

std::optional<std::string> entry_of(const std::vector<std::optional<std::string>>& list, std::size_t row) {
  return row < list.size() ? list[row] : std::nullopt;
}

std::vector<Result> results_of(const SearchFlags& flags, const StoredVectors& vectors,
                               const std::vector<embedding::Match>& matches) {
  std::map<std::size_t, std::string> texts;
  if (!flags.texts.empty()) texts = texts_of_rows(flags, vectors, matches);
  std::vector<Result> results;
  for (const embedding::Match& match : matches) {
    Result result{match, entry_of(vectors.ids, match.index), entry_of(vectors.hashes, match.index),
                  entry_of(vectors.texts, match.index), entry_of(vectors.images, match.index)};
    if (const auto found = texts.find(match.index); found != texts.end()) result.text = found->second;
    results.push_back(std::move(result));
  }
  return results;
}

// What a late-interaction model says about its scores.
bool has_mean_scores(const OpenEncoder& encoder) {
  const auto& late = encoder.embedder->encoder().model().late_interaction;
  return late && late->is_mean;
}

embedding::EmbedOptions query_options(const OpenEncoder& encoder, embedding::Representation representation) {
  const checkpoint::SentenceModel& model = encoder.embedder->encoder().model();
  // Of a model with dense vectors as well, the setting is about those.
  if (model.splade && representation == embedding::Representation::sparse &&
      model.similarity.value_or(Similarity::dot) != Similarity::dot) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}': similarity_fn_name of config_sentence_transformers.json is not supported for sparse "
                            "vectors; accepted: dot",
                            model.name));
  }
  embedding::EmbedOptions options = encoder.options;
  options.representation = representation;
  options.role = embedding::TextRole::query;
  return options;
}

/// Matches among sparse vectors or token vectors, and what is known of them.
struct RepresentationMatches {
  StoredVectors known;  ///< without elements
  std::vector<embedding::Match> matches;
};

// The texts behind the query, as the model represents them.
RepresentationMatches search_representations(const SearchFlags& flags, const OpenEncoder& encoder,
                                             embedding::Representation representation) {
  RepresentationMatches found;
  std::vector<embedding::Embedding> embeddings;
  embedding::EmbedOptions options = options_of_texts(flags, encoder);
  options.representation = representation;
  const embedding::Texts texts = embedding::texts_of(flags.among, flags.form);
  const embedding::EmbeddingSink keep = [&](std::string_view text, const embedding::Embedding& embedding) {
    found.known.texts.emplace_back(text);
    embeddings.push_back(embedding);
  };
  found.known.rows = embedding::embed_all(*encoder.embedder, options, texts.next,
                                          flags.workers != 0 ? flags.workers : encoder.workers, keep);
  found.known.dimension = encoder.embedder->encoder().dimension(options);
  const embedding::Embedding query =
      encoder.embedder->represent(flags.query.value_or(""), query_options(encoder, representation));
  found.matches = embedding::best_matches(embeddings, query, representation, has_mean_scores(encoder), flags.top,
                                          workers_of(flags));
  return found;
}

// Those of --index.
RepresentationMatches search_stored(SearchFlags& flags, const Context& context,
                                    embedding::Representation representation) {
  if (!flags.vector.empty()) {
    throw Error(ErrorCode::usage, fmt::format("--query-vector is dense, and the vectors of '{}' are {}: search them "
                                              "for a text, with the model that made them",
                                              flags.place, name_of(representation)));
  }
  if (flags.encoder.representation.value_or(representation) != representation) {
    throw Error(ErrorCode::usage, fmt::format("the vectors of '{}' are {}", flags.place, name_of(representation)));
  }
  const embedding::StoredEmbeddings stored = embedding::read_stored_embeddings(flags.place);
  flags.encoder.representation = representation;
  const OpenEncoder encoder = open_encoder(flags.encoder, context);
  const std::string digest = "sha256:" + encoder.digest;
  if (!stored.digest.empty() && stored.digest != digest) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the vectors of '{}' were made by model '{}' ({}), and '{}' is {}", flags.place,
                            stored.model, stored.digest, encoder.embedder->encoder().model().name, digest));
  }
  RepresentationMatches found;
  found.known.rows = stored.embeddings.size();
  found.known.dimension = stored.dimension;
  const embedding::Embedding query =
      encoder.embedder->represent(flags.query.value_or(""), query_options(encoder, representation));
  found.matches = embedding::best_matches(stored.embeddings, query, representation, has_mean_scores(encoder), flags.top,
                                          workers_of(flags));
  return found;
}

// Of --index; empty: dense vectors, or no file.
std::optional<embedding::Representation> representation_of(const std::string& place) {
  std::error_code unreadable;
  if (place.empty() || !fs::is_regular_file(place, unreadable)) return std::nullopt;
  return embedding::stored_representation(place);
}

Json to_json(const StoredVectors& vectors, const std::vector<Result>& results) {
  Json list = Json::array();
  for (const Result& result : results) {
    Json json{{"rank", list.size() + 1},
              {"score", Json::parse(fmt::format("{}", result.match.score))},  // as few digits as the float has
              {"index", result.match.index}};
    if (result.id) json["id"] = *result.id;
    if (result.hash) json["hash"] = *result.hash;
    if (result.text) json["text"] = *result.text;
    if (result.image) json["image"] = *result.image;
    list.push_back(std::move(json));
  }
  return {{"vectors", vectors.rows}, {"dimension", vectors.dimension}, {"results", std::move(list)}};
}

std::string to_table(const StoredVectors& vectors, const SearchFlags& flags, const std::vector<Result>& results) {
  constexpr std::size_t short_hash = 12;
  Table table{{"RANK", "SCORE", "INDEX"}, {}};
  if (!vectors.ids.empty()) table.head.emplace_back("ID");
  if (!vectors.hashes.empty()) table.head.emplace_back("HASH");
  const bool has_texts = !vectors.texts.empty() || !flags.texts.empty();
  if (has_texts) table.head.emplace_back("TEXT");
  if (!vectors.images.empty()) table.head.emplace_back("IMAGE");
  for (const Result& result : results) {
    auto& row = table.rows.emplace_back();
    row = {std::to_string(table.rows.size()), fmt::format("{:.4f}", result.match.score),
           std::to_string(result.match.index)};
    if (!vectors.ids.empty()) row.push_back(result.id.value_or(""));
    if (!vectors.hashes.empty()) row.push_back(result.hash.value_or("").substr(0, short_hash));
    if (has_texts) row.push_back(beginning_of(result.text.value_or("")));
    if (!vectors.images.empty()) row.push_back(result.image.value_or(""));
  }
  return table.text();
}

// Moves the words behind the command to their places: the model unless it is named, the query, the texts.
void place_words(SearchFlags& flags) {
  ModelArgument typed{.first = flags.model, .rest = std::move(flags.among), .flag = {}};
  if (flags.query) typed.rest.insert(typed.rest.begin(), *flags.query);
  std::vector<std::string> words =
      flags.vector.empty() ? place_model(typed, flags.encoder) : place_words(typed, true).words;
  flags.query.reset();
  flags.among.clear();
  if (words.empty()) return;
  flags.query = words.front();
  flags.among.assign(words.begin() + 1, words.end());
}

// The other flags are the text query's.
EncoderFlags images_alone(const EncoderFlags& flags) {
  EncoderFlags images;
  images.model = flags.model;
  images.pull = flags.pull;
  images.load = flags.load;
  images.dimensions = flags.dimensions;
  images.normalize = flags.normalize;
  return images;
}

void show(const SearchFlags& flags, const Context& context, const StoredVectors& among,
          const std::vector<embedding::Match>& matches) {
  const std::vector<Result> results = results_of(flags, among, matches);
  if (context.wants_json()) {
    print_json(to_json(among, results));
  } else {
    print_data(to_table(among, flags, results));
  }
}

void rank_and_show(const SearchFlags& flags, const Context& context, const StoredVectors& vectors,
                   const DenseQuery& query) {
  const auto start = std::chrono::steady_clock::now();
  const auto matches = embedding::top_k(vectors.elements, query.vector, flags.top, workers_of(flags), query.similarity);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(context, fmt::format("searched {} in {:.3f} s", counted(vectors.rows, "vector"), seconds));
  show(flags, context, vectors, matches);
}

void search_images(SearchFlags& flags, const Context& context) {
  flags.encoder.representation = embedding::Representation::dense;
  const std::vector<std::string> images = images_to_search(flags.images, context);
  StoredVectors vectors;
  const DenseQuery query = dense_query(flags, vectors, context);
  const OpenImageEncoder encoder = open_image_encoder(images_alone(flags.encoder), context);
  vectors = embed_images_to_search(encoder, images, flags.workers);
  require_same_dimension(flags, vectors, query.vector.size());
  rank_and_show(flags, context, vectors, query);
}

void search_stored_vectors(SearchFlags& flags, const Context& context) {
  if (flags.encoder.representation.value_or(embedding::Representation::dense) != embedding::Representation::dense) {
    throw Error(ErrorCode::usage, fmt::format("the vectors of '{}' are dense, or there are none: --sparse and "
                                              "--multi-vector search FILE.npz and FILE.jsonl of 'gpux embed'",
                                              flags.place));
  }
  flags.encoder.representation = embedding::Representation::dense;
  StoredVectors vectors = embedding::read_stored_vectors(flags.place);
  if (!flags.images.empty()) name_images(vectors, images_to_search(flags.images, context), flags.place);
  const DenseQuery query = dense_query(flags, vectors, context);
  require_same_dimension(flags, vectors, query.vector.size());
  rank_and_show(flags, context, vectors, query);
}

void search_texts(const SearchFlags& flags, const Context& context) {
  const OpenEncoder encoder = open_encoder(flags.encoder, context);
  const embedding::Representation representation = encoder.embedder->encoder().representation(encoder.options);
  if (representation != embedding::Representation::dense) {
    if (!flags.query_image.empty()) {
      throw Error(ErrorCode::usage, fmt::format("the vectors of the texts are {}, and those of images are dense",
                                                name_of(representation)));
    }
    const RepresentationMatches found = search_representations(flags, encoder, representation);
    show(flags, context, found.known, found.matches);
    return;
  }
  const StoredVectors vectors = embed_texts(flags, encoder);
  const DenseQuery query =
      flags.query_image.empty()
          ? DenseQuery{.vector = encoder.embedder->embed(flags.query.value_or(""), encoder.options),
                       .similarity = similarity_of(encoder)}
          : embed_query(flags, vectors, context);
  rank_and_show(flags, context, vectors, query);
}

void search_collection(SearchFlags& flags, const Context& context) {
  flags.store.count = flags.top;
  flags.encoder.representation = embedding::Representation::dense;
  if (!flags.query_image.empty())
    throw Error(ErrorCode::usage, "search: --in is searched for a text, and not an image");
  if (flags.query) return search_store(flags.store, flags.encoder, *flags.query, context);
  search_store(flags.store, read_query(flags.vector), context);
}

void search(SearchFlags& flags, const Context& context) {
  place_words(flags);
  check_flags(flags);
  if (flags.query && embedding::is_image_argument(*flags.query)) {
    flags.query_image = image_of_query(*flags.query);
  } else if (flags.query) {
    flags.query = embedding::one_text_of(*flags.query, {"search"});
  }
  if (!flags.store.url.empty()) {
    search_collection(flags, context);
    return;
  }
  if (!flags.images.empty() && flags.place.empty()) {
    search_images(flags, context);
    return;
  }
  if (const auto stored = representation_of(flags.among.empty() ? flags.place : "")) {
    if (!flags.query_image.empty() || !flags.images.empty()) {
      throw Error(ErrorCode::usage, fmt::format("the vectors of '{}' are {}, and those of images are dense",
                                                flags.place, name_of(*stored)));
    }
    const RepresentationMatches found = search_stored(flags, context, *stored);
    show(flags, context, found.known, found.matches);
    return;
  }
  if (flags.among.empty()) {
    search_stored_vectors(flags, context);
  } else {
    search_texts(flags, context);
  }
}

}  // namespace

void add_search(CLI::App& program, Context& context) {
  auto flags = std::make_shared<SearchFlags>();
  CLI::App* command = add_command(program, context, "search", "Find the texts, images or vectors nearest to a query");
  command->add_option("MODEL", flags->model, "the model, unless -m or --level names it: then it is the QUERY");
  command->add_option("QUERY", flags->query,
                      "a text; @FILE: the content of a file, @IMAGE: an image; -: standard input");
  add_words(*command, "TEXT", flags->among,
            "the texts to search, instead of --index: TEXT itself, the lines of @FILE, or - for standard input");
  command->add_option("--index", flags->place,
                      "vectors as 'gpux embed' writes them: FILE.{npy,jsonl,vec,npz}, or a folder of .vec");
  command
      ->add_option("--images", flags->images,
                   "the images to search: a file, a folder, or a list of paths; with --index those of its vectors; "
                   "repeatable")
      ->allow_extra_args(false);
  command->add_option("--in", flags->store.url,
                      "search a collection of 'gpux embed --to': postgres://…, qdrant://…, file:PATH");
  command
      ->add_option("--where", flags->store.where,
                   "--in: only points whose payload has KEY=VALUE, as plugin=net or meta.size=3; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--exact", flags->store.is_exact,
                    "--in: compare every vector instead of using an approximate index");
  command->add_flag("--hybrid", flags->store.is_hybrid,
                    "--in: search the sparse vectors, too, and fuse both by reciprocal ranks");
  command->add_option("--rerank", flags->store.reranker,
                      "--in: rank what was found by this model, a cross-encoder (task text-ranking)");
  command->add_option("--top-k", flags->top, "number of results (default: 10)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  command->add_option("--texts", flags->texts, "the file with the texts of the vectors in FILE.{npy,jsonl}");
  command->add_option("--text-prompt", flags->text_prompt,
                      "put this prompt of the model before each of the texts (default: the model's default prompt)");
  CLI::Option* field = command->add_option("--field", flags->form.field,
                                           "the lines of --texts or @FILE are JSON objects, the text is in this field");
  command
      ->add_option("--column", flags->form.column, "--texts or @FILE is CSV with a header, the text is in this column")
      ->excludes(field);
  command->add_option("--workers", flags->workers, "search threads (default: processors of this process)")
      ->check(CLI::Range(1U, 1024U));
  command->add_option("--query-vector", flags->vector, "search for the vector in FILE.npy, instead of a text");
  const std::size_t own = command->get_options().size();
  add_encoder_flags(*command, flags->encoder);
  add_representation_flags(*command, flags->encoder);
  flags->about_text = command->get_options();
  flags->about_text.erase(flags->about_text.begin(), flags->about_text.begin() + static_cast<std::ptrdiff_t>(own));
  command->footer(
      "Examples:\n"
      "  gpux search all-MiniLM-L6-v2 'a query' 'one text' 'another'\n"
      "  gpux search all-MiniLM-L6-v2 'what runs' --index vectors.npy --texts lines.txt\n"
      "  gpux search all-MiniLM-L6-v2 'what runs' --in postgres://localhost/shop?collection=items --where kind=shoe\n"
      "  gpux search clip 'a cat' --images photos/\n"
      "  gpux search --query-vector query.npy --index vectors.jsonl --top-k 3");
  command->callback([flags, &context] { search(*flags, context); });
}

}  // namespace gpux::cli
