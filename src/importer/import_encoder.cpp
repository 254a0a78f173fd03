#include "importer/import_encoder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/scratch_folder.h"
#include "gpux/error.h"
#include "importer/encoder_graph.h"
#include "importer/end_token.h"
#include "importer/families/family.h"
#include "importer/gguf/gguf_file.h"
#include "importer/gguf/import_gguf.h"
#include "importer/import_decoder.h"
#include "importer/import_image_model.h"
#include "importer/module_list.h"
#include "importer/pair_score.h"
#include "importer/safetensors.h"
#include "importer/sentence_model.h"
#include "importer/transformer_settings.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

constexpr std::array setting_files{"added_tokens.json",
                                   "config.json",
                                   "config_sentence_transformers.json",
                                   "genai_config.json",
                                   "generation_config.json",
                                   "modules.json",
                                   transformer_settings_files[0],
                                   transformer_settings_files[1],
                                   transformer_settings_files[2],
                                   transformer_settings_files[3],
                                   transformer_settings_files[4],
                                   transformer_settings_files[5],
                                   transformer_settings_files[6],
                                   "special_tokens_map.json",
                                   "tokenizer.json",
                                   "tokenizer_config.json",
                                   "artifact.metadata",
                                   "chat_template.jinja",
                                   "chat_template.json",
                                   "additional_chat_templates/tool_use.jinja"};

VectorSteps steps_of(const SentenceModel& model) {
  VectorSteps steps;
  // A prompt whose tokens do not count is known outside only.
  if (model.poolings.size() != 1 || !model.pools_prompt) return steps;
  switch (model.poolings.front()) {
    case Pooling::cls:
      steps.pooling = GraphPooling::cls;
      break;
    case Pooling::max:
      steps.pooling = GraphPooling::max;
      break;
    case Pooling::mean:
      steps.pooling = GraphPooling::mean;
      break;
    case Pooling::last_token:
      steps.pooling = GraphPooling::last_token;
      break;
    default:
      return steps;
  }
  steps.dense = model.dense;
  steps.normalize = model.normalize;
  return steps;
}

std::string_view name_of(HeadKind kind) {
  switch (kind) {
    case HeadKind::classification:
      return "text classification";
    case HeadKind::token_classification:
      return "token classification";
    case HeadKind::question_answering:
      return "question answering";
    case HeadKind::vectors:
      break;
  }
  return "";
}

std::string_view name_of(GraphPooling pooling) {
  switch (pooling) {
    case GraphPooling::cls:
      return "cls";
    case GraphPooling::max:
      return "max";
    case GraphPooling::mean:
      return "mean";
    case GraphPooling::last_token:
      return "lasttoken";
    case GraphPooling::none:
      break;
  }
  return "";
}

fs::path weights_in(const fs::path& folder, const fs::path& transformer) {
  std::error_code unreadable;
  for (const char* file : {"model.onnx", "onnx/model.onnx"}) {
    if (fs::exists(transformer / file, unreadable)) {
      throw Error(ErrorCode::usage,
                  format_message("'{}' holds {} already: it can be used as it is", file_at(folder), file));
    }
  }
  if (const auto weights = safetensors_in(transformer)) return *weights;
  const bool is_torch = fs::exists(transformer / "pytorch_model.bin", unreadable);
  throw Error(ErrorCode::not_found, format_message("'{}' has no model.safetensors{}", file_at(folder),
                                                   is_torch ? "; pytorch_model.bin holds code and is not read" : ""));
}

fs::path require_new(fs::path target) {
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  std::error_code error;
  if (fs::exists(target, error) && !fs::is_empty(target, error)) {
    throw Error(ErrorCode::usage, format_message("'{}' already exists; give a new folder", file_at(target)));
  }
  return target;
}

/// A folder beside the target that takes its place when it is whole, and is gone otherwise.
class NewFolder {
 public:
  explicit NewFolder(fs::path target)
      : target_(require_new(std::move(target))), scratch_(target_), made_(scratch_.path() / "made") {
    std::error_code error;
    if (!fs::create_directory(made_, error)) throw_file_error("make", made_, error.value());
  }

  [[nodiscard]] const fs::path& path() const noexcept { return made_; }

  void keep() const {
    // An empty folder in its place is replaced.
    if (const int error = scratch_.move_out(made_, target_); error != 0) throw_file_error("make", target_, error);
    if (const int error = sync_folder(target_.parent_path()); error != 0) throw_file_error("make", target_, error);
  }

 private:
  fs::path target_;
  ScratchFolder scratch_;
  fs::path made_;
};

// activation(W x + b) of a file with the tensors "weight" and "bias", which BGE-M3 has beside its encoder.
std::optional<DenseLayer> layer_beside(const fs::path& folder, const std::string& name, std::int64_t hidden_size) {
  std::error_code unreadable;
  const fs::path file = folder / (name + ".safetensors");
  if (!fs::exists(file, unreadable)) return std::nullopt;
  const Safetensors weights(file);
  const Shape& shape = weights.shape("weight");
  if (shape.size() != 2 || shape[1] != hidden_size || shape[0] < 1) {
    throw Error(ErrorCode::invalid_model, format_message("{}: weight is {}; accepted: [width, {}]", file_at(file),
                                                         to_string(shape), hidden_size));
  }
  DenseLayer layer{.in = hidden_size, .out = shape[0], .weights = weights.floats("weight", shape)};
  layer.bias = weights.has("bias") ? weights.floats("bias", {layer.out})
                                   : std::vector<float>(static_cast<std::size_t>(layer.out), 0.0F);
  return layer;
}

// The rows of two tokens in the output layer, or in the table of words that it shares (tied weights).
DenseLayer score_of_tokens(const fs::path& folder, const Weights& weights, const Architecture& architecture) {
  const std::optional<PairScore> score = read_pair_score(folder);
  if (!score) throw Error(ErrorCode::invalid_model, format_message("'{}' has no LogitScore", file_at(folder)));
  const std::int64_t vocabulary = architecture.embeddings.vocabulary, size = architecture.transformer.hidden_size;
  const std::string table = weights.has("lm_head.weight") ? "lm_head.weight" : architecture.embeddings.words;
  const auto row_of = [&](std::int64_t token) {
    if (token >= vocabulary) {
      throw Error(ErrorCode::invalid_model, format_message("'{}': LogitScore names the token {}; accepted: below {}",
                                                           file_at(folder), token, vocabulary));
    }
    return weights.floats(table, {vocabulary, size}, token, 1);
  };
  DenseLayer layer{.in = size, .out = 1, .weights = row_of(score->true_token), .bias = {0.0F}};
  if (score->false_token) {
    const std::vector<float> other = row_of(*score->false_token);
    std::ranges::transform(layer.weights, other, layer.weights.begin(), std::minus<>());
  }
  return layer;
}

// Each layer takes what the one before it gives.
void require_fitting(const std::vector<DenseLayer>& layers, std::int64_t width) {
  for (const DenseLayer& layer : layers) {
    if (layer.in != width) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("a Dense of modules.json takes {} numbers, and there are {}", layer.in, width));
    }
    width = layer.out;
  }
}

RepresentationSteps representations_of(const fs::path& folder, const SentenceModel& model, const Weights& weights,
                                       const Architecture& architecture) {
  const std::int64_t hidden_size = architecture.transformer.hidden_size;
  RepresentationSteps steps{.splade = model.splade};
  if (model.late_interaction) {
    TokenVectorSteps& of_tokens = steps.token_vectors.emplace();
    of_tokens.dense = model.dense;
    of_tokens.normalize = model.late_interaction->normalize;
    if (of_tokens.dense.empty()) {
      const Shape& shape = weights.shape("linear.weight");  // colbert-ir's projection
      if (shape.size() != 2 || shape[1] != hidden_size) {
        throw Error(ErrorCode::invalid_model, fmt::format("the projection linear.weight is {}; accepted: [width, {}]",
                                                          to_string(shape), hidden_size));
      }
      of_tokens.dense.push_back({.in = hidden_size,
                                 .out = shape[0],
                                 .weights = weights.floats("linear.weight", shape),
                                 .bias = std::vector<float>(static_cast<std::size_t>(shape[0]), 0.0F)});
    }
    require_fitting(of_tokens.dense, hidden_size);
    return steps;
  }
  if (model.splade) return steps;
  if (model.scores_pairs) {
    steps.pair_score = score_of_tokens(folder, weights, architecture);
    return steps;
  }
  steps.token_weights = layer_beside(folder, "sparse_linear", hidden_size);
  if (steps.token_weights && steps.token_weights->out != 1) {
    throw Error(ErrorCode::invalid_model, fmt::format("sparse_linear.safetensors has {} weights per token; accepted: 1",
                                                      steps.token_weights->out));
  }
  steps.colbert = layer_beside(folder, "colbert_linear", hidden_size);
  return steps;
}

// BGE-M3 is published with its heads as pickles.
std::vector<std::string> unread_heads(const fs::path& folder, const RepresentationSteps& steps) {
  std::vector<std::string> lines;
  std::error_code unreadable;
  for (const auto& [name, vectors, is_read] : {std::tuple("sparse_linear", "sparse", steps.token_weights.has_value()),
                                               std::tuple("colbert_linear", "token", steps.colbert.has_value())}) {
    if (is_read || !fs::exists(folder / (std::string(name) + ".pt"), unreadable)) continue;
    lines.push_back(
        fmt::format("{0}.pt is a pickle, which may hold code, and is not read: the model has no {1} vectors; "
                    "accepted: {0}.safetensors with the tensors weight and bias",
                    name, vectors));
  }
  return lines;
}

std::string representation_name(const RepresentationSteps& steps) {
  if (steps.splade) return "sparse vectors (SPLADE)";
  if (steps.token_vectors) return "token vectors (late interaction)";
  if (steps.pair_score) return "text ranking";
  return {};
}

/// What is known of an encoder before an element of its weights is read, except those of small layers beside it.
struct DescribedEncoder {
  SentenceModel model;
  Safetensors weights;
  Architecture architecture;
  RepresentationSteps representations;
  std::string represented;  ///< what these are; empty: there are none
  VectorSteps steps;
  HeadKind head = HeadKind::vectors;
};

// What import_encoder() refuses because of the settings and the names and sizes of the tensors is refused here.
DescribedEncoder describe_encoder(const fs::path& folder) {
  SentenceModel model = read_sentence_settings(folder);
  Safetensors weights(weights_in(folder, model.transformer_folder));
  Architecture architecture;
  try {
    architecture = describe_architecture(ConfigReader(read_file(model.transformer_folder / "config.json")), weights);
  } catch (const Error& error) {
    throw error.within({file_at(folder)});
  }
  RepresentationSteps representations = representations_of(folder, model, weights, architecture);
  if (!model.poolings.empty()) {
    const auto pooled = static_cast<std::int64_t>(model.poolings.size()) * architecture.transformer.hidden_size;
    require_fitting(model.dense, pooled);
  }
  require_tokenizer(folder, model.transformer_folder);
  std::string represented = representation_name(representations);
  // Without those tensors it is an encoder like any other, whatever its architecture's name.
  const HeadKind head = represented.empty() ? architecture.head.kind : HeadKind::vectors;
  VectorSteps steps = steps_of(model);
  if (head != HeadKind::vectors || !represented.empty()) steps.pooling = GraphPooling::none;
  return {.model = std::move(model),
          .weights = std::move(weights),
          .architecture = std::move(architecture),
          .representations = std::move(representations),
          .represented = std::move(represented),
          .steps = std::move(steps),
          .head = head};
}

constexpr const char* modules_file = "modules.json";

std::vector<Module> modules_in(const fs::path& folder) {
  return read_modules(JsonSettings(folder / modules_file, JsonSettings::Json::value_t::array));
}

// What is read again where the model runs: the settings of the modules behind the transformer, and the weights of
// dense layers.
std::vector<std::string> module_files_in(const fs::path& folder, const std::vector<Module>& modules) {
  std::vector<std::string> found;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    if (modules[i].folder.empty()) continue;
    std::vector<std::string> names{"config.json"};
    if (modules[i].kind == "Dense") names.emplace_back("model.safetensors");
    for (const std::string& name : names) {
      std::error_code unreadable;
      std::string file = modules[i].folder + "/" + name;
      if (fs::is_regular_file(folder / file, unreadable)) found.push_back(std::move(file));
    }
  }
  return found;
}

// modules.json whose transformer is in the folder itself.
std::string with_transformer_here(const fs::path& file) {
  JsonSettings::Json modules = JsonSettings(file, JsonSettings::Json::value_t::array).json();
  modules.front()["path"] = "";
  return modules.dump(2) + "\n";
}

// From the transformer's folder or the whole one; false where neither has it.
bool copy_setting(const fs::path& folder, const fs::path& transformer, const fs::path& target,
                  const std::string& name) {
  std::error_code unreadable;
  for (const fs::path& place : {transformer, folder}) {
    if (!fs::is_regular_file(place / name, unreadable)) continue;
    write_file_atomically(target / name, read_file(place / name));
    return true;
  }
  return false;
}

}  // namespace

void require_tokenizer(const fs::path& folder, const fs::path& transformer_folder) {
  std::error_code unreadable;
  for (const fs::path& place : {transformer_folder, folder}) {
    if (fs::is_regular_file(place / "tokenizer.json", unreadable)) return;
  }
  throw Error(ErrorCode::not_found, format_message("'{}' has no tokenizer.json", file_at(folder)));
}

std::uint64_t require_importable(const fs::path& folder) {
  if (is_image_model(folder)) return require_importable_image_model(folder);
  if (is_decoder_folder(folder)) return require_importable_decoder(folder);
  const DescribedEncoder encoder = describe_encoder(folder);
  write_encoder(encoder.weights, encoder.architecture, encoder.steps, {}, encoder.representations);
  return encoder.weights.float32_bytes();
}

ImportedEncoder import_encoder(const fs::path& folder, const fs::path& target, const DecoderImport& decoder) {
  if (gguf::is_gguf_file(folder)) {
    if (decoder.blocks) {
      throw Error(ErrorCode::usage,
                  format_message("'{}': a GGUF file keeps the precision of its weights", file_at(folder)));
    }
    NewFolder made(target);
    ImportedEncoder imported = import_gguf(folder, made.path(), decoder.context_length);
    made.keep();
    return imported;
  }
  if (decoder.given() && !is_decoder_folder(folder)) {
    throw Error(ErrorCode::usage,
                format_message("'{}': weights in blocks and a context length are for models that generate text",
                               file_at(folder)));
  }
  if (is_image_model(folder)) {
    (void)weights_in(folder, folder);
    NewFolder made(target);
    ImportedEncoder imported = import_image_model(folder, made.path());
    made.keep();
    return imported;
  }
  if (is_decoder_folder(folder)) {
    (void)weights_in(folder, folder);
    NewFolder made(target);
    ImportedEncoder imported = import_decoder(folder, made.path(), decoder);
    if (decoder.check) decoder.check(made.path());
    made.keep();
    return imported;
  }
  const DescribedEncoder encoder = describe_encoder(folder);
  const SentenceModel& model = encoder.model;
  const Weights& weights = encoder.weights;
  const Architecture& architecture = encoder.architecture;
  const RepresentationSteps& representations = encoder.representations;
  const std::string& represented = encoder.represented;
  const HeadKind head = encoder.head;
  const VectorSteps& steps = encoder.steps;

  NewFolder made(target);
  ImportedEncoder imported{.family = architecture.model_type,
                           .layers = static_cast<std::int64_t>(architecture.transformer.layers.size()),
                           .heads = architecture.transformer.heads,
                           .width = architecture.transformer.hidden_size,
                           .max_tokens = model.max_tokens,
                           .pooling = std::string(name_of(steps.pooling)),
                           .normalize = steps.normalize && head == HeadKind::vectors,
                           .task = represented.empty() ? std::string(name_of(head)) : represented,
                           .labels = head == HeadKind::vectors ? 0 : architecture.labels,
                           .tasks = model.tasks,
                           .copied = {},
                           .left_out = unread_heads(folder, representations)};
  std::vector<std::string> wanted(setting_files.begin(), setting_files.end());
  const std::vector<Module> modules = modules_in(folder);
  for (const std::string& name : module_files_in(folder, modules)) wanted.push_back(name);
  for (const std::string& name : wanted) {
    if (copy_setting(folder, model.transformer_folder, made.path(), name)) imported.copied.push_back(name);
  }
  // The transformer's files have moved beside the ONNX file.
  if (!modules.empty() && !modules.front().folder.empty()) {
    write_file_atomically(made.path() / modules_file, with_transformer_here(folder / modules_file));
  }
  const fs::path tokenizer = made.path() / "tokenizer.json";
  const JsonSettings tokenizer_config(made.path() / "tokenizer_config.json");
  if (const auto changed = with_end_token(read_file(tokenizer), tokenizer_config)) {
    write_file_atomically(tokenizer, *changed);
  }
  write_encoder(weights, architecture, steps, made.path() / "model.onnx", representations);
  made.keep();
  return imported;
}

std::vector<std::string> setting_files_in(const fs::path& folder) {
  std::vector<std::string> found;
  const auto look_in = [&](const fs::path& place) {
    for (const char* name : setting_files) {
      std::error_code unreadable;
      if (!fs::is_regular_file(folder / place / name, unreadable)) continue;
      std::string file = (place / name).generic_string();
      if (std::find(found.begin(), found.end(), file) == found.end()) found.push_back(std::move(file));
    }
  };
  look_in("");
  const std::vector<Module> modules = modules_in(folder);
  if (!modules.empty() && !modules.front().folder.empty()) look_in(modules.front().folder);
  for (std::string& file : module_files_in(folder, modules)) {
    if (std::find(found.begin(), found.end(), file) == found.end()) found.push_back(std::move(file));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace gpux::importer
