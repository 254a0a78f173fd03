#include "importer/import_encoder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "checkpoint/end_token.h"
#include "checkpoint/module_list.h"
#include "checkpoint/pair_score.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sentence_model.h"
#include "checkpoint/setting_files.h"
#include "gpux/error.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/weights_of.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

VectorSteps steps_of(const checkpoint::SentenceModel& model) {
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

// activation(W x + b) of a file with the tensors "weight" and "bias", which BGE-M3 has beside its encoder.
std::optional<checkpoint::DenseLayer> layer_beside(const fs::path& folder, const std::string& name,
                                                   std::int64_t hidden_size) {
  std::error_code unreadable;
  const fs::path file = folder / (name + ".safetensors");
  if (!fs::exists(file, unreadable)) return std::nullopt;
  const checkpoint::Safetensors weights(file);
  const Shape& shape = weights.shape("weight");
  if (shape.size() != 2 || shape[1] != hidden_size || shape[0] < 1) {
    throw Error(ErrorCode::invalid_model, format_message("{}: weight is {}; accepted: [width, {}]", file_at(file),
                                                         to_string(shape), hidden_size));
  }
  checkpoint::DenseLayer layer{.in = hidden_size, .out = shape[0], .weights = weights.floats("weight", shape)};
  layer.bias = weights.has("bias") ? weights.floats("bias", {layer.out})
                                   : std::vector<float>(static_cast<std::size_t>(layer.out), 0.0F);
  return layer;
}

// The rows of two tokens in the output layer, or in the table of words that it shares (tied weights).
checkpoint::DenseLayer score_of_tokens(const fs::path& folder, const checkpoint::Weights& weights,
                                       const Architecture& architecture) {
  const std::optional<checkpoint::PairScore> score = checkpoint::read_pair_score(folder);
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
  checkpoint::DenseLayer layer{.in = size, .out = 1, .weights = row_of(score->true_token), .bias = {0.0F}};
  if (score->false_token) {
    const std::vector<float> other = row_of(*score->false_token);
    std::ranges::transform(layer.weights, other, layer.weights.begin(), std::minus<>());
  }
  return layer;
}

// Each layer takes what the one before it gives.
void require_fitting(const std::vector<checkpoint::DenseLayer>& layers, std::int64_t width) {
  for (const checkpoint::DenseLayer& layer : layers) {
    if (layer.in != width) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("a Dense of modules.json takes {} numbers, and there are {}", layer.in, width));
    }
    width = layer.out;
  }
}

RepresentationSteps representations_of(const fs::path& folder, const checkpoint::SentenceModel& model,
                                       const checkpoint::Weights& weights, const Architecture& architecture) {
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
  checkpoint::SentenceModel model;
  checkpoint::Safetensors weights;
  Architecture architecture;
  RepresentationSteps representations;
  std::string represented;  ///< what these are; empty: there are none
  VectorSteps steps;
  HeadKind head = HeadKind::vectors;
};

// What import_encoder() refuses because of the settings and the names and sizes of the tensors is refused here.
DescribedEncoder describe_encoder(const fs::path& folder) {
  checkpoint::SentenceModel model = checkpoint::read_sentence_settings(folder);
  checkpoint::Safetensors weights(weights_of(folder, model.transformer_folder));
  Architecture architecture;
  try {
    architecture =
        describe_architecture(checkpoint::ConfigReader(read_file(model.transformer_folder / "config.json")), weights);
  } catch (const Error& error) {
    throw error.within({file_at(folder)});
  }
  RepresentationSteps representations = representations_of(folder, model, weights, architecture);
  if (!model.poolings.empty()) {
    const auto pooled = static_cast<std::int64_t>(model.poolings.size()) * architecture.transformer.hidden_size;
    require_fitting(model.dense, pooled);
  }
  checkpoint::require_tokenizer(folder, model.transformer_folder);
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

std::uint64_t require_importable_encoder(const fs::path& folder) {
  const DescribedEncoder encoder = describe_encoder(folder);
  write_encoder(encoder.weights, encoder.architecture, encoder.steps, {}, encoder.representations);
  return encoder.weights.float32_bytes();
}

ImportedModel import_encoder(const fs::path& folder, const fs::path& target) {
  const DescribedEncoder encoder = describe_encoder(folder);
  const checkpoint::SentenceModel& model = encoder.model;
  const checkpoint::Weights& weights = encoder.weights;
  const Architecture& architecture = encoder.architecture;
  const RepresentationSteps& representations = encoder.representations;
  const std::string& represented = encoder.represented;
  const HeadKind head = encoder.head;
  const VectorSteps& steps = encoder.steps;

  ImportedModel imported{.family = architecture.model_type,
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
  const auto files = checkpoint::setting_files();
  std::vector<std::string> wanted(files.begin(), files.end());
  const std::vector<checkpoint::Module> modules = checkpoint::modules_in(folder);
  for (const std::string& name : checkpoint::module_files_in(folder, modules)) wanted.push_back(name);
  for (const std::string& name : wanted) {
    if (copy_setting(folder, model.transformer_folder, target, name)) imported.copied.push_back(name);
  }
  // The transformer's files have moved beside the ONNX file.
  if (!modules.empty() && !modules.front().folder.empty()) {
    write_file_atomically(target / checkpoint::modules_file, with_transformer_here(folder / checkpoint::modules_file));
  }
  const fs::path tokenizer = target / "tokenizer.json";
  const JsonSettings tokenizer_config(target / "tokenizer_config.json");
  if (const auto changed = checkpoint::with_end_token(read_file(tokenizer), tokenizer_config)) {
    write_file_atomically(tokenizer, *changed);
  }
  write_encoder(weights, architecture, steps, target / "model.onnx", representations);
  return imported;
}

}  // namespace gpux::importer
