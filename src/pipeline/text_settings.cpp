#include "pipeline/text_settings.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/format_message.h"
#include "checkpoint/class_labels.h"
#include "checkpoint/filled_tokens.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/sentence_model.h"
#include "gpux/error.h"

namespace gpux::pipeline {
namespace {

namespace fs = std::filesystem;

// Of a question and a part of its context, as transformers has it.
constexpr std::size_t window_tokens = 384;

std::size_t label_count(const JsonSettings& config, const std::vector<std::string>& labels) {
  // transformers writes two labels where nothing is said, and num_labels where there is one.
  return labels.empty() ? config.count("num_labels").value_or(2) : labels.size();
}

Task task_in(const JsonSettings& config, const std::vector<std::string>& labels) {
  const std::string architecture = checkpoint::architecture_in(config);
  if (architecture.ends_with("ForSequenceClassification")) {
    return label_count(config, labels) == 1 ? Task::text_ranking : Task::text_classification;
  }
  if (architecture.ends_with("ForTokenClassification")) return Task::token_classification;
  if (architecture.ends_with("ForQuestionAnswering")) return Task::question_answering;
  return Task::none;
}

// As transformers decides.
Activation activation_in(const JsonSettings& config, const std::vector<std::string>& labels) {
  const std::string problem = config.text("problem_type");
  if (problem == "regression") return Activation::none;
  if (problem == "multi_label_classification") return Activation::sigmoid;
  return label_count(config, labels) == 1 ? Activation::sigmoid : Activation::softmax;
}

// As sentence-transformers' CrossEncoder decides, which writes it into config.json.
PairActivation ranking_in(const JsonSettings& config, const JsonSettings& cross_encoder) {
  std::string name = config.text("sbert_ce_default_activation_function");
  const char* key = "sbert_ce_default_activation_function";
  if (const std::string own = config.object("sentence_transformers").text("activation_fn"); !own.empty()) {
    name = own;
    key = "sentence_transformers.activation_fn";
  }
  const bool says_more = !cross_encoder.text("activation_fn").empty();
  if (says_more) {
    name = cross_encoder.text("activation_fn");
    key = "activation_fn";
  }
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last.empty() || last == "Sigmoid") return PairActivation::sigmoid;
  if (last == "Identity") return PairActivation::identity;
  if (last == "Tanh") return PairActivation::tanh;
  (says_more ? cross_encoder : config).refuse_value(key, name, "Sigmoid, Identity, Tanh of torch.nn");
}

void read_task(const fs::path& folder, TextSettings& settings) {
  const JsonSettings config(folder / "config.json");
  settings.labels = checkpoint::class_labels_in(config);
  settings.task = task_in(config, settings.labels);
  settings.activation = activation_in(config, settings.labels);
  if (std::optional<checkpoint::PairScore> score = checkpoint::read_pair_score(folder)) {
    settings.task = Task::text_ranking;
    settings.labels.clear();
    settings.pair_template = std::move(score->pair_template);
  }
  const bool is_cross_encoder = settings.task == Task::text_ranking || settings.task == Task::text_classification;
  if (is_cross_encoder && !settings.pair_template) settings.prompt = checkpoint::default_prompt_in(folder);
  if (settings.task == Task::text_ranking) {
    settings.ranking = ranking_in(config, JsonSettings(folder / "config_sentence_transformers.json"));
  }
}

bool takes_tokens(const Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                     [](const SignatureEntry& entry) { return entry.name == "input_ids"; });
}

// Keys and values of earlier tokens: a decoder, whose inputs of a step do not come from a text alone.
bool takes_cache(const Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                     [](const SignatureEntry& entry) { return entry.name.starts_with("past_"); });
}

std::optional<std::size_t> fixed_length(const Signature& signature) {
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.name != "input_ids" || !entry.type.dimensions || entry.type.dimensions->size() != 2) continue;
    const auto size = entry.type.dimensions->back().size;
    if (size) return static_cast<std::size_t>(*size);
  }
  return std::nullopt;
}

// The tokenizer.json that gpux.yml names, itself or by its folder.
fs::path declared_tokenizer(const ProjectFile& project, const fs::path& named) {
  std::error_code unreadable;
  if (fs::is_directory(named, unreadable) && fs::is_regular_file(named / "tokenizer.json", unreadable)) {
    return named / "tokenizer.json";
  }
  if (fs::is_regular_file(named, unreadable)) return named;
  throw Error(ErrorCode::not_found,
              format_message("{}: preprocessing.tokenizer is '{}', and there is no such file, nor a folder with a "
                             "tokenizer.json",
                             project.where("preprocessing.tokenizer"), file_at(named)));
}

void apply(const ProjectFile& project, TextSettings& settings) {
  const DeclaredText& said = project.text;
  if (said.task) settings.task = value_named(task_names, *said.task).value_or(Task::none);
  if (said.max_tokens) {
    if (settings.max_tokens != 0 && *said.max_tokens > settings.max_tokens) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("{}: preprocessing.max_length is {}; accepted: at most the model's {}",
                              project.where("preprocessing.max_length"), *said.max_tokens, settings.max_tokens));
    }
    settings.max_tokens = *said.max_tokens;
  }
  if (said.truncate_left) settings.truncate_left = *said.truncate_left;
  if (said.fills_up) settings.fills_up = *said.fills_up;
  if (said.pair_truncation == "only_first") settings.pair_truncation = text::PairTruncation::first_only;
  if (said.pair_truncation == "only_second") settings.pair_truncation = text::PairTruncation::second_only;
  if (said.aggregation) {
    settings.aggregation = value_named(aggregation_names, *said.aggregation).value_or(Aggregation::simple);
  }
  if (said.max_answer_tokens) settings.max_answer_tokens = *said.max_answer_tokens;
  if (settings.fills_up && settings.max_tokens == 0) {
    throw Error(ErrorCode::invalid_config, fmt::format("{}: preprocessing.padding is max_length, and nothing says how "
                                                       "long that is: give preprocessing.max_length",
                                                       project.where("preprocessing.padding")));
  }
}

// Adds the entry where it is declared and the model has none of that name.
bool add_declared(const std::optional<std::vector<DeclaredValue>>& declared, std::string_view name, ElementType element,
                  std::vector<SignatureEntry>& entries) {
  const auto is_named = [&](const auto& entry) { return entry.name == name; };
  if (!declared || std::none_of(declared->begin(), declared->end(), is_named)) return false;
  if (std::any_of(entries.begin(), entries.end(), is_named)) return false;
  SignatureEntry& entry = entries.emplace_back();
  entry.name = name;
  entry.type.kind = ValueKind::tensor;
  entry.type.element = element;
  entry.type.dimensions = std::vector<Dimension>{{.size = std::nullopt, .name = "batch"}};
  entry.required = false;
  return true;
}

}  // namespace

Signature declarable(const Signature& model, const ProjectFile& project) {
  Signature signature = model;
  if (!takes_tokens(model)) return signature;
  bool has_text = false;
  for (const char* name : {"text", "text_pair", "query", "question", "context"}) {
    has_text = add_declared(project.inputs, name, ElementType::string, signature.inputs) || has_text;
  }
  for (SignatureEntry& entry : signature.inputs) {
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids", "position_ids"}) {
      if (has_text && entry.name == name) entry.required = false;
    }
  }
  add_declared(project.outputs, "scores", ElementType::float32, signature.outputs);
  add_declared(project.outputs, "entities", ElementType::string, signature.outputs);
  add_declared(project.outputs, "answers", ElementType::string, signature.outputs);
  return signature;
}

Task require_text_settings(const fs::path& folder) {
  TextSettings settings;
  read_task(folder, settings);
  return settings.task;
}

std::optional<TextSettings> read_text_settings(const fs::path& onnx_file, const ProjectFile* project,
                                               const Signature& signature) {
  const std::optional<fs::path> declared = project == nullptr ? std::nullopt : project->text.tokenizer;
  if (!takes_tokens(signature)) {
    if (project == nullptr || (!declared && !project->text.task)) return std::nullopt;
    const char* key = declared ? "preprocessing.tokenizer" : "task";
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: {} is given, but the model has no input 'input_ids'", project->where(key), key));
  }
  const bool is_asked_for = project != nullptr && (declared || project->text.task);
  if (takes_cache(signature) && !is_asked_for) return std::nullopt;
  TextSettings settings;
  fs::path folder;
  if (declared) {
    settings.tokenizer_file = declared_tokenizer(*project, *declared);
    folder = settings.tokenizer_file.parent_path();
  } else {
    const std::optional<fs::path> found = checkpoint::tokenizer_folder_of(onnx_file);
    if (!found) {
      if (project == nullptr || !project->text.task) return std::nullopt;
      throw Error(ErrorCode::not_found,
                  format_message("{}: task is given, but there is no tokenizer.json beside '{}': name it with "
                                 "preprocessing.tokenizer",
                                 project->where("task"), file_at(onnx_file)));
    }
    folder = *found;
    settings.tokenizer_file = folder / "tokenizer.json";
  }
  const checkpoint::TokenLimits limits = checkpoint::read_token_limits(folder);
  settings.max_tokens = limits.max_tokens;
  settings.truncate_left = limits.truncate_left;
  settings.first_position = limits.first_position;
  settings.padding_token = limits.padding_token;
  settings.has_token_types = limits.has_token_types;
  settings.vocabulary = limits.vocabulary;
  settings.fills_up = limits.pads_to_max_tokens && limits.max_tokens != 0;
  if (const auto fixed = fixed_length(signature)) {
    settings.max_tokens = settings.max_tokens == 0 ? *fixed : std::min(settings.max_tokens, *fixed);
    settings.fills_up = true;
  }
  read_task(folder, settings);
  if (project != nullptr) apply(*project, settings);
  if (settings.fills_up && settings.max_tokens > checkpoint::max_filled_tokens) {
    throw Error(ErrorCode::invalid_model,
                format_message("'{}' fills each text up to {} tokens; accepted: up to {}", file_at(onnx_file),
                               settings.max_tokens, checkpoint::max_filled_tokens));
  }
  const bool has_length = (project != nullptr && project->text.max_tokens) || settings.fills_up;
  if (settings.task == Task::question_answering && !has_length) {
    settings.max_tokens = settings.max_tokens == 0 ? window_tokens : std::min(settings.max_tokens, window_tokens);
  }
  return settings;
}

}  // namespace gpux::pipeline
