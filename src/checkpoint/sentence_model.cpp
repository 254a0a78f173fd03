#include "checkpoint/sentence_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "checkpoint/dense_layer.h"
#include "checkpoint/exported_files.h"
#include "checkpoint/filled_tokens.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/module_list.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/transformer_settings.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = JsonSettings::Json;

// Where the module lies.
fs::path folder_of(const Module& module, const fs::path& root) {
  return module.folder.empty() ? root : root / module.folder;
}

std::vector<Pooling> read_poolings(const JsonSettings& settings) {
  if (!settings.exists()) settings.refuse("is not there, and modules.json names its Pooling");
  std::vector<Pooling> poolings;
  if (const Json* mode = settings.find("pooling_mode")) {
    for (const Json& name : mode->is_array() ? *mode : Json::array({*mode})) {
      const auto pooling = name.is_string() ? pooling_from(name.get<std::string>()) : std::nullopt;
      if (!pooling) {
        settings.refuse_value("pooling_mode", name,
                              "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken, or a list of them");
      }
      poolings.push_back(*pooling);
    }
    if (poolings.empty()) settings.refuse_value("pooling_mode", *mode, "a mode, or a list of them");
  } else {
    // In sentence-transformers' order, whatever the file's.
    static constexpr std::array<std::pair<const char*, Pooling>, 6> flags{{
        {"pooling_mode_cls_token", Pooling::cls},
        {"pooling_mode_max_tokens", Pooling::max},
        {"pooling_mode_mean_tokens", Pooling::mean},
        {"pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_length},
        {"pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
        {"pooling_mode_lasttoken", Pooling::last_token},
    }};
    for (const auto& [key, pooling] : flags) {
      if (settings.flag(key, false)) poolings.push_back(pooling);
    }
    if (poolings.empty()) poolings.push_back(Pooling::mean);
  }
  return poolings;
}

// A text's vector per token: Transformer, Dense, MultiVectorMask and Normalize.
void apply_late_interaction_modules(const fs::path& root, const std::vector<Module>& modules,
                                    const JsonSettings& settings, LateInteractionKind kind, LateInteraction& late,
                                    SentenceModel& model) {
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const std::string& name = modules[i].kind;
    const fs::path folder = folder_of(modules[i], root);
    if (name == "Dense" && !late.normalize) {
      model.dense.push_back(read_dense(folder, token_feature));
    } else if (name == "MultiVectorMask") {
      read_late_interaction_mask(folder, late);
    } else if (name == "Normalize") {
      require_feature(JsonSettings(folder / "config.json"), token_feature);
      late.normalize = true;
    } else {
      settings.refuse(
          fmt::format("module {} is '{}'; accepted of a late-interaction model: a Transformer, Dense, "
                      "MultiVectorMask, Normalize",
                      i, name));
    }
  }
  if (kind == LateInteractionKind::pylate) late.normalize = true;
}

bool is_masked_language_model(const Module& module, const fs::path& root) {
  if (module.kind == "MLMTransformer") return true;
  return module.kind == "Transformer" &&
         transformer_settings(folder_of(module, root)).text("transformer_task") == "fill-mask";
}

// Gives the folder of the Transformer, where the tokenizer's files lie.
fs::path apply_modules(const fs::path& root, const JsonSettings& settings, SentenceModel& model) {
  const std::vector<Module> modules = read_modules(settings);
  const fs::path transformer = modules.empty() ? root : folder_of(modules.front(), root);
  if (const LateInteractionKind kind = late_interaction_kind(root, transformer); kind != LateInteractionKind::none) {
    LateInteraction& late = model.late_interaction.emplace(read_late_interaction(kind, root, transformer));
    if (!modules.empty() && modules.front().kind != "Transformer") {
      settings.refuse("the first module has to be a Transformer");
    }
    if (kind != LateInteractionKind::stanford)
      apply_late_interaction_modules(root, modules, settings, kind, late, model);
    return transformer;
  }
  if (!settings.exists()) {
    model.poolings = {Pooling::mean};
    return root;
  }
  if (!modules.empty() && (modules.front().kind == "Router" || modules.front().kind == "SparseStaticEmbedding")) {
    settings.refuse(
        fmt::format("module 0 is '{}': sparse vectors of queries without a model, by a table of weights, "
                    "are not supported; accepted: a masked language model and a SpladePooling",
                    modules.front().kind));
  }
  const bool is_sparse = modules.size() == 2 && modules.back().kind == "SpladePooling";
  if (is_sparse && is_masked_language_model(modules.front(), root)) {
    model.splade = read_splade_pooling(folder_of(modules.back(), root));
    return transformer;
  }
  if (modules.empty() || modules.front().kind != "Transformer") {
    settings.refuse("the first module has to be a Transformer");
  }
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const std::string& kind = modules[i].kind;
    const fs::path folder = folder_of(modules[i], root);
    if (kind == "Pooling" && i == 1) {
      const JsonSettings pooling(folder / "config.json");
      model.poolings = read_poolings(pooling);
      model.declares_pooling = true;
      model.pools_prompt = pooling.flag("include_prompt", true);
    } else if (kind == "Dense" && i > 1 && !model.normalize) {
      model.dense.push_back(read_dense(folder));
    } else if (kind == "Normalize") {
      if (folder != transformer) require_feature(JsonSettings(folder / "config.json"), sentence_feature);
      model.normalize = true;
    } else if (kind == "LogitScore" && i == 1 && modules.size() == 2) {
      model.scores_pairs = true;
    } else {
      settings.refuse(
          fmt::format("module {} is '{}'; accepted: a Transformer, a Pooling, Dense, Normalize, in this order; or a "
                      "masked language model and a SpladePooling",
                      i, kind));
    }
  }
  return transformer;
}

fs::path find_file(const fs::path& folder, const fs::path& root, const std::vector<std::string>& names,
                   std::string_view what) {
  std::error_code unreadable;  // is not there, as far as can be seen
  std::vector<fs::path> folders{folder};
  if (root != folder) folders.push_back(root);
  for (const fs::path& place : folders) {
    for (const std::string& name : names) {
      if (fs::is_regular_file(place / name, unreadable)) return place / name;
    }
  }
  throw Error(ErrorCode::not_found, format_message("'{}' has no {}: looked for {}", file_at(root), what, join(names)));
}

fs::path find_onnx_file(const fs::path& folder, const fs::path& root) {
  std::error_code unreadable;
  std::vector<fs::path> others;
  for (const fs::path& place : folder == root ? std::vector{root} : std::vector{folder, root}) {
    for (const char* name : {"model.onnx", "onnx/model.onnx"}) {
      if (fs::is_regular_file(place / name, unreadable)) return place / name;
    }
    for (const std::string& name : exported_files_in(place)) others.push_back(place / name);
  }
  // Weights come before files of other names, which are the model in other precisions: as gpux import has it.
  const bool has_weights = safetensors_in(folder).has_value();
  if (others.size() == 1 && !has_weights) return others.front();
  const char* conversion = "gpux import makes one of its model.safetensors";
  if (!others.empty()) {
    std::vector<std::string> names;
    for (const fs::path& other : others) names.push_back(other.lexically_relative(root).generic_string());
    throw Error(ErrorCode::not_found,
                format_message("'{}' has no model.onnx but {}: {}gpux import says with {} which one is the model",
                               file_at(root), join(names), has_weights ? std::string(conversion) + "; " : "",
                               setting_named("file")));
  }
  throw Error(ErrorCode::not_found,
              has_weights
                  ? format_message("'{}' has no ONNX file: {}", file_at(root), conversion)
                  : format_message("'{}' has no ONNX file: looked for model.onnx, onnx/model.onnx", file_at(root)));
}

fs::path named_onnx_file(const fs::path& folder, const fs::path& name) {
  const fs::path relative = name.lexically_normal();
  if (relative.is_absolute() || *relative.begin() == "..") {
    throw Error(ErrorCode::usage,
                format_message("{} '{}' leads out of '{}': accepted is the name of an ONNX file in it",
                               setting_named("file"), file_at(name), file_at(folder)));
  }
  return find_file(folder, folder, {relative.generic_string()}, "ONNX file");
}

// RoBERTa and its kin count positions from behind the padding token's id, so that many cannot be used.
std::uint64_t unused_positions(const JsonSettings& config) {
  const std::string type = config.text("model_type");
  if (type == "mpnet") return 2;  // whatever its padding token is called
  for (const char* known : {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer"}) {
    if (type == known) return config.token("pad_token_id").value_or(1) + 1;
  }
  return 0;
}

// Of a model that has no table of positions, so that it takes any number of them. NomicBERT's are limited by what
// scales them.
bool computes_positions(const JsonSettings& config) {
  if (config.find("rotary_scaling_factor") != nullptr) return false;
  if (config.text("position_embedding_type") == "alibi") return true;
  for (const auto& [key, value] : config.json().items()) {
    if (!value.is_null() && (key.find("rope") != std::string::npos || key.find("rotary") != std::string::npos)) {
      return true;
    }
  }
  return false;
}

// What a tokenizer makes is given to the model by these names.
bool has_token_types(const JsonSettings& tokenizer) {
  const Json* names = tokenizer.find("model_input_names");
  if (names == nullptr) return true;
  const bool are_texts =
      names->is_array() && std::ranges::all_of(*names, [](const Json& name) { return name.is_string(); });
  if (!are_texts) tokenizer.refuse_value("model_input_names", *names, "a list of texts");
  return std::ranges::find(*names, Json("token_type_ids")) != names->end();
}

std::optional<std::uint64_t> max_length_of(const JsonSettings& tokenizer) {
  return tokenizer.count(tokenizer.json().contains("model_max_length") ? "model_max_length" : "max_len");
}

void apply_limits(const fs::path& folder, SentenceModel& model) {
  const JsonSettings config(folder / "config.json");
  if (const Json* architectures = config.find("architectures")) {
    const bool has_name = architectures->is_array() && !architectures->empty() && architectures->front().is_string();
    if (has_name) model.architecture = architectures->front().get<std::string>();
  }
  const TokenLimits limits = read_token_limits(folder);
  model.max_tokens = limits.max_tokens;
  if (model.late_interaction && model.late_interaction->document_tokens != 0) {
    model.max_tokens = model.late_interaction->document_tokens;
  }
  model.first_position = limits.first_position;
  model.padding_token = limits.padding_token;
  model.pads_to_max_tokens = limits.pads_to_max_tokens;
  model.truncate_left = limits.truncate_left;
  model.has_token_types = limits.has_token_types;
  model.vocabulary = limits.vocabulary;
  // Pairs are scored as they are.
  if (model.late_interaction || model.scores_pairs) return;
  const JsonSettings transformer = transformer_settings(folder);
  for (const char* key : {"query_length", "document_length", "query_expansion"}) {
    if (const Json* value = transformer.find(key)) {
      transformer.refuse_value(key, *value, "null: it is for late-interaction models");
    }
  }
}

// What sentence-transformers does with the vectors. Names that it does not know count as none there.
void apply_vector_settings(const JsonSettings& sentences, SentenceModel& model) {
  if (!model.splade && !model.late_interaction) model.dimensions = sentences.positive("truncate_dim").value_or(0);
  if (model.splade) model.sparse_top_k = sentences.positive("max_active_dims").value_or(0);
  if (model.vocabulary != 0 && model.sparse_top_k > model.vocabulary) {
    sentences.refuse_value("max_active_dims", model.sparse_top_k,
                           fmt::format("null, 1 to the vocabulary's {}", model.vocabulary));
  }
  const std::string name = sentences.text("similarity_fn_name");
  for (const auto& [known, similarity] : similarity_names) {
    if (known == name && !model.late_interaction) model.similarity = similarity;
  }
}

bool has_prompt(const SentenceModel& model, std::string_view name) {
  return std::ranges::any_of(model.prompts, [&](const auto& prompt) { return prompt.first == name; });
}

// "task_instructions": {"retrieval.query": "Represent the query …"}
std::string instruction_of(const JsonSettings& config, const std::string& task) {
  const Json* instructions = config.find("task_instructions");
  if (instructions == nullptr) return {};
  if (!instructions->is_object()) config.refuse_value("task_instructions", *instructions, "an object of texts");
  const auto found = instructions->find(task);
  if (found == instructions->end()) return {};
  if (!found->is_string()) config.refuse_value("task_instructions." + task, *found, "a text");
  return found->get<std::string>();
}

void apply_tasks(const JsonSettings& config, const JsonSettings& transformer, SentenceModel& model) {
  const Json* names = config.find("lora_adaptations");
  if (names == nullptr) return;
  constexpr std::size_t max_tasks = 1000;
  if (!names->is_array() || names->empty() || names->size() > max_tasks) {
    config.refuse_value("lora_adaptations", *names, "a list of names");
  }
  for (const Json& name : *names) {
    if (!name.is_string() || name.get<std::string>().empty() || model.task_named(name.get<std::string>())) {
      config.refuse_value("lora_adaptations", *names, "a list of different names");
    }
    const std::string task = name.get<std::string>();
    model.tasks.push_back(task);
    if (!has_prompt(model, task)) model.prompts.emplace_back(task, instruction_of(config, task));
  }
  for (const char* key : {"model_args", "model_kwargs"}) {
    const JsonSettings arguments = transformer.object(key);
    const Json* task = arguments.find("default_task");
    if (task == nullptr) continue;
    if (task->is_string()) model.default_task = model.task_named(task->get<std::string>());
    if (!model.default_task) arguments.refuse_value("default_task", *task, join(model.tasks));
  }
}

void apply_prompts(const JsonSettings& settings, SentenceModel& model) {
  if (const Json* prompts = settings.find("prompts")) {
    if (!prompts->is_object()) settings.refuse_value("prompts", *prompts, "an object of texts");
    for (const auto& [name, text] : prompts->items()) {
      if (text.is_null()) continue;
      if (!text.is_string()) settings.refuse_value("prompts." + name, text, "a text");
      model.prompts.emplace_back(name, text.get<std::string>());
    }
  }
}

void apply_default_prompt(const JsonSettings& settings, SentenceModel& model) {
  const std::string chosen = settings.text("default_prompt_name");
  if (chosen.empty()) return;
  const auto found = std::find_if(model.prompts.begin(), model.prompts.end(),
                                  [&](const auto& prompt) { return prompt.first == chosen; });
  if (found == model.prompts.end()) {
    settings.refuse(fmt::format("default_prompt_name is '{}', and there is no such prompt", chosen));
  }
  model.default_prompt = found->second;
  if (const auto task = model.task_named(chosen)) model.default_task = task;
}

// Texts are documents unless their prompt is the query's.
void apply_late_interaction_prompts(const LateInteraction& late, SentenceModel& model) {
  const auto set = [&](const char* name, const std::string& text) {
    for (auto& [known, prompt] : model.prompts) {
      if (known != name) continue;
      prompt = text;
      return;
    }
    model.prompts.emplace_back(name, text);
  };
  set("query", late.query_prompt);
  set("document", late.document_prompt);
  model.default_prompt = late.document_prompt;
}

/// The text tower of a config.json of CLIP or SigLIP, or of that tower alone, with transformers' defaults.
struct TextTower {
  bool is_there = false;
  std::uint64_t positions = 0;
  std::uint32_t padding_token = 1;
  bool is_padded = false;  ///< SigLIP is trained on texts that are padded to its positions
};

TextTower text_tower_in(const JsonSettings& config) {
  TextTower tower;
  const std::string type = config.text("model_type");
  const bool is_clip = type == "clip" || type == "clip_text_model";
  const bool is_siglip = type == "siglip" || type == "siglip_text_model";
  if (!is_clip && !is_siglip) return tower;
  tower.is_there = true;
  tower.is_padded = is_siglip;
  const JsonSettings nested = config.object("text_config");
  const JsonSettings& settings = nested.exists() ? nested : config;
  constexpr std::uint64_t clip_positions = 77, siglip_positions = 64;
  tower.positions = settings.count("max_position_embeddings").value_or(is_clip ? clip_positions : siglip_positions);
  tower.padding_token = settings.token("pad_token_id").value_or(1);
  return tower;
}

}  // namespace

std::optional<std::size_t> SentenceModel::task_named(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tasks, name);
  if (found == tasks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tasks.begin());
}

TokenLimits read_token_limits(const fs::path& folder) {
  const JsonSettings transformer = transformer_settings(folder);
  require_supported(transformer);
  const JsonSettings tokenizer(folder / "tokenizer_config.json");
  const JsonSettings config(folder / "config.json");
  TokenLimits limits;
  const std::uint64_t unused = unused_positions(config);
  auto positions = config.count("max_position_embeddings");
  const bool is_nomic = config.text("model_type") == "nomic_bert";
  if (!positions && is_nomic) positions = config.count("n_positions");
  // NomicBERT's rotations depend on the length beyond the trained positions.
  if (is_nomic && config.find("rotary_scaling_factor") != nullptr) {
    constexpr std::uint64_t trained = 2048;
    positions = std::min(positions.value_or(trained), config.count("max_trained_positions").value_or(trained));
  }
  const TextTower tower = text_tower_in(config);
  if (tower.is_there) positions = tower.positions;
  if (positions) positions = *positions > unused ? *positions - unused : 0;
  const auto said = max_tokens_in(transformer);
  if (said && computes_positions(config)) positions.reset();
  for (const auto limit : {said ? said : max_length_of(tokenizer), positions}) {
    if (!limit || *limit == 0) continue;
    limits.max_tokens = limits.max_tokens == 0 ? *limit : std::min<std::uint64_t>(limits.max_tokens, *limit);
  }
  limits.has_token_types = has_token_types(tokenizer);
  limits.vocabulary = vocabulary_of(folder);
  limits.first_position = static_cast<std::int64_t>(unused);
  limits.padding_token = config.token("pad_token_id").value_or(0);
  if (tower.is_there) limits.padding_token = tower.padding_token;
  limits.pads_to_max_tokens = tower.is_padded;
  if (tower.is_padded && limits.max_tokens > max_filled_tokens) {
    config.refuse(
        fmt::format("each text is padded to {} tokens; accepted: up to {}", limits.max_tokens, max_filled_tokens));
  }
  for (const JsonSettings& settings :
       {tokenizer, transformer.object("tokenizer_args"), transformer.object("processor_kwargs")}) {
    const std::string side = settings.text("truncation_side");
    if (side.empty()) continue;
    if (side != "left" && side != "right") settings.refuse_value("truncation_side", side, "left, right");
    limits.truncate_left = side == "left";
  }
  return limits;
}

std::uint64_t vocabulary_of(const fs::path& folder) {
  const JsonSettings config(folder / "config.json");
  if (config.find("vocab_size") != nullptr) return config.count("vocab_size").value_or(0);
  return config.object("text_config").count("vocab_size").value_or(0);
}

fs::path transformer_folder_of(const fs::path& folder) {
  const JsonSettings settings(folder / "modules.json", Json::value_t::array);
  const std::vector<Module> modules = read_modules(settings);
  return modules.empty() ? folder : folder_of(modules.front(), folder);
}

SentenceModel read_sentence_settings(const fs::path& folder) {
  std::error_code unreadable;
  if (!fs::is_directory(folder, unreadable)) {
    throw Error(ErrorCode::not_found, format_message("there is no folder '{}'", file_at(folder)));
  }
  SentenceModel model;
  model.name = fs::weakly_canonical(folder).filename();
  const JsonSettings modules(folder / "modules.json", Json::value_t::array);
  model.transformer_folder = apply_modules(folder, modules, model);
  apply_limits(model.transformer_folder, model);
  // Their texts and images are compared by cosine, after the graph.
  const bool has_tower = text_tower_in(JsonSettings(model.transformer_folder / "config.json")).is_there;
  if (has_tower && !modules.exists()) {
    model.normalize = true;
    model.graph_normalizes = false;
  }
  const JsonSettings sentences(folder / "config_sentence_transformers.json");
  apply_prompts(sentences, model);
  apply_tasks(JsonSettings(model.transformer_folder / "config.json"), transformer_settings(model.transformer_folder),
              model);
  apply_default_prompt(sentences, model);
  apply_vector_settings(sentences, model);
  if (model.late_interaction) apply_late_interaction_prompts(*model.late_interaction, model);
  return model;
}

std::optional<fs::path> tokenizer_folder_of(const fs::path& onnx_file) {
  std::error_code unreadable;
  fs::path folder = fs::absolute(onnx_file).lexically_normal().parent_path();
  if (!fs::is_regular_file(folder / "tokenizer.json", unreadable) && folder.filename() == "onnx") {
    folder = folder.parent_path();
  }
  if (!fs::is_regular_file(folder / "tokenizer.json", unreadable)) return std::nullopt;
  return folder;
}

std::optional<SentenceModel> sentence_model_of(const fs::path& onnx_file) {
  const std::optional<fs::path> folder = tokenizer_folder_of(onnx_file);
  if (!folder) return std::nullopt;
  SentenceModel model = read_sentence_settings(*folder);
  model.tokenizer_file = find_file(model.transformer_folder, *folder, {"tokenizer.json"}, "tokenizer");
  model.onnx_file = onnx_file;
  return model;
}

SentenceModel read_sentence_model(const fs::path& folder, const fs::path& onnx_file) {
  SentenceModel model = read_sentence_settings(folder);
  model.tokenizer_file = find_file(model.transformer_folder, folder, {"tokenizer.json"}, "tokenizer");
  model.onnx_file =
      onnx_file.empty() ? find_onnx_file(model.transformer_folder, folder) : named_onnx_file(folder, onnx_file);
  return model;
}

}  // namespace gpux::checkpoint
