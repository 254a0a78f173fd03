#include "checkpoint/transformer_settings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"

namespace gpux::checkpoint {
namespace {

using Json = JsonSettings::Json;
using Names = std::vector<std::string>;

// Where files come from, and how and in which precision the library computes.
const Names loading_arguments{"_attn_implementation",
                              "max_memory",
                              "offload_folder",
                              "reference_compile",
                              "unpad_inputs",
                              "use_flash_attention_2",
                              "use_flash_attn",
                              "use_memory_efficient_attention",
                              "attn_implementation",
                              "cache_dir",
                              "code_revision",
                              "device_map",
                              "dtype",
                              "export",
                              "file_name",
                              "local_files_only",
                              "low_cpu_mem_usage",
                              "provider",
                              "revision",
                              "subfolder",
                              "token",
                              "torch_dtype",
                              "trust_remote_code",
                              "use_auth_token",
                              "use_cache",
                              "use_safetensors"};

// What a call of the tokenizer takes without another result for a text alone.
const Names call_arguments{"pad_to_multiple_of",    "padding", "return_attention_mask", "return_tensors",
                           "return_token_type_ids", "verbose"};

bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void require_members(const JsonSettings& object, Names accepted) {
  for (const auto& [key, value] : object.json().items()) {
    const bool is_nothing = value.is_null() || (value.is_structured() && value.empty());
    if (!is_nothing && !is_one_of(accepted, key)) object.refuse_value(key, value, "null");
  }
}

void require_text(const JsonSettings& settings, const char* key, const Names& accepted) {
  const std::string value = settings.text(key);
  if (!value.empty() && !is_one_of(accepted, value)) settings.refuse_value(key, value, join(accepted));
}

Names with(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// Versions before 6 wrote the second name.
constexpr std::array processor_keys{"processor_kwargs", "tokenizer_args"};

void require_call_supported(const JsonSettings& call) {
  require_members(call, with(call_arguments, {"add_special_tokens", "logits_to_keep", "max_length", "truncation"}));
  if (!call.flag("add_special_tokens", true)) call.refuse_value("add_special_tokens", false, "true");
  if (const Json* padding = call.find("padding")) {
    const bool is_usual = padding->is_boolean() || *padding == "longest";
    if (!is_usual) call.refuse_value("padding", *padding, "true, false, longest");
  }
  if (const Json* truncation = call.find("truncation")) {
    const bool is_usual = *truncation == true || *truncation == "longest_first";
    if (!is_usual) call.refuse_value("truncation", *truncation, "true, longest_first");
  }
}

void require_modality_supported(const JsonSettings& transformer) {
  const JsonSettings modalities = transformer.object("modality_config");
  if (!modalities.exists() || modalities.find("text") == nullptr) return;
  const JsonSettings text = modalities.object("text");
  require_text(text, "method", {"forward", "get_text_features"});
  const Json* output = text.find("method_output_name");
  if (output != nullptr && !output->is_string()) text.refuse_value("method_output_name", *output, "a text");
  require_text(
      text, "method_output_name",
      {"last_hidden_state", "logits", "pooler_output", "sentence_embedding", "text_embeds", "token_embeddings"});
}

}  // namespace

JsonSettings transformer_settings(const std::filesystem::path& folder) {
  for (const char* name : transformer_settings_files) {
    JsonSettings settings(folder / name);
    if (!settings.json().empty()) return settings;
  }
  return JsonSettings(folder / transformer_settings_files.front());
}

std::optional<std::uint64_t> max_tokens_in(const JsonSettings& transformer) {
  const JsonSettings processing = transformer.object("processing_kwargs");
  for (const char* part : {"common", "text"}) {
    if (const auto limit = processing.object(part).count("max_length")) return limit;
  }
  for (const char* key : processor_keys) {
    const JsonSettings processor = transformer.object(key);
    if (processor.find("model_max_length") != nullptr) return processor.count("model_max_length").value_or(0);
  }
  return transformer.count("max_seq_length");
}

void require_supported(const JsonSettings& transformer) {
  require_text(transformer, "transformer_task",
               {"feature-extraction", "sequence-classification", "text-generation", "fill-mask"});
  require_text(transformer, "module_output_name",
               {"causal_logits", "scores", "sentence_embedding", "token_embeddings"});
  if (const Json* other = transformer.find("tokenizer_name_or_path")) {
    transformer.refuse_value("tokenizer_name_or_path", *other, "null: the tokenizer next to the model");
  }
  require_modality_supported(transformer);
  for (const char* key : processor_keys) {
    require_members(transformer.object(key),
                    with(loading_arguments, {"clean_up_tokenization_spaces", "model_max_length", "padding_side",
                                             "truncation_side", "use_fast"}));
  }
  for (const char* key : {"config_kwargs", "config_args"}) {
    require_members(transformer.object(key), loading_arguments);
  }
  for (const char* key : {"model_kwargs", "model_args"}) {
    require_members(transformer.object(key), with(loading_arguments, {"add_pooling_layer", "default_task"}));
  }
  const JsonSettings processing = transformer.object("processing_kwargs");
  for (const char* part : {"common", "text"}) require_call_supported(processing.object(part));
  const JsonSettings chat = processing.object("chat_template");
  require_members(chat, {"add_generation_prompt", "restore_suffix"});
  if (!chat.flag("restore_suffix", true)) chat.refuse_value("restore_suffix", false, "true");
}

}  // namespace gpux::checkpoint
