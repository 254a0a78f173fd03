#include "checkpoint/late_interaction.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "checkpoint/filled_tokens.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/transformer_settings.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = JsonSettings::Json;

constexpr std::size_t usual_query_tokens = 32;

std::vector<std::string> punctuation() {
  std::vector<std::string> words;
  for (const char mark : std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")) words.emplace_back(1, mark);
  return words;
}

std::vector<std::string> texts_in(const JsonSettings& settings, const char* key) {
  std::vector<std::string> texts;
  const Json* list = settings.find(key);
  if (list == nullptr) return texts;
  if (list->is_string()) return {list->get<std::string>()};
  if (!list->is_array()) settings.refuse_value(key, *list, "a list of texts");
  for (const Json& text : *list) {
    if (!text.is_string()) settings.refuse_value(key, text, "a text");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::string prompt_in(const JsonSettings& settings, const char* name) {
  const Json* prompts = settings.find("prompts");
  if (prompts == nullptr || !prompts->is_object()) return {};
  const auto found = prompts->find(name);
  return found != prompts->end() && found->is_string() ? found->get<std::string>() : std::string();
}

// {"strategy", "length", "attend", "token"}
QueryExpansion expansion_in(const JsonSettings& settings, const Json& value) {
  const auto refuse = [&](const char* key, const Json& met, std::string_view accepted) {
    settings.refuse_value(std::string("query_expansion.") + key, met, accepted);
  };
  if (!value.is_object()) {
    settings.refuse_value("query_expansion", value, "an object with strategy and length, or null");
  }
  const std::string accepted_lengths = fmt::format("1 to {}", max_filled_tokens);
  QueryExpansion expansion;
  for (const auto& [key, member] : value.items()) {
    if (key == "strategy") {
      if (member != "fixed" && member != "min") refuse("strategy", member, "fixed, min");
      expansion.is_maximum = member == "fixed";
    } else if (key == "length") {
      if (!member.is_number_unsigned() || member == 0U || member.get<std::size_t>() > max_filled_tokens) {
        refuse("length", member, accepted_lengths);
      }
      expansion.length = member.get<std::size_t>();
    } else if (key == "attend") {
      if (!member.is_boolean()) refuse("attend", member, "true, false");
      expansion.is_attended = member.get<bool>();
    } else if (key == "token") {
      if (member.is_null()) continue;
      if (!member.is_string()) refuse("token", member, "a token, or null");
      expansion.token = member.get<std::string>();
    } else {
      refuse(std::string(utf8_prefix(key, 40)).c_str(), member, "strategy, length, attend, token");
    }
  }
  if (expansion.length == 0) refuse("length", nullptr, accepted_lengths);
  return expansion;
}

// "[MASK]", or {"content": "[MASK]"}.
std::string token_in(const JsonSettings& settings, const char* key) {
  const Json* value = settings.find(key);
  if (value == nullptr) return {};
  if (value->is_object() && value->contains("content")) value = &value->at("content");
  if (!value->is_string()) settings.refuse_value(key, *value, "a token");
  return value->get<std::string>();
}

// PyLate's and colbert-ir's flat settings.
std::optional<QueryExpansion> flat_expansion(const JsonSettings& settings, const char* length_key) {
  if (!settings.flag("do_query_expansion", true)) return std::nullopt;
  const bool is_attended = settings.flag("attend_to_expansion_tokens", settings.flag("attend_to_mask_tokens", false));
  const std::uint64_t length = settings.count(length_key).value_or(usual_query_tokens);
  if (length > max_filled_tokens) {
    settings.refuse_value(length_key, length, fmt::format("up to {}", max_filled_tokens));
  }
  return QueryExpansion{.length = length, .is_maximum = true, .is_attended = is_attended, .token = {}};
}

LateInteraction read_stanford(const fs::path& root) {
  const JsonSettings metadata(root / "artifact.metadata");
  const auto marker = [&](const char* key, const char* usual) {
    const std::string said = metadata.text(key);
    return (said.empty() ? usual : said) + ' ';
  };
  LateInteraction settings;
  settings.query_prompt = marker("query_token_id", "[unused0]");
  settings.document_prompt = marker("doc_token_id", "[unused1]");
  settings.has_markers = true;
  settings.document_tokens = metadata.count("doc_maxlen").value_or(0);
  settings.expansion = flat_expansion(metadata, "query_maxlen");
  if (metadata.flag("mask_punctuation", true)) settings.skipped_words = punctuation();
  settings.normalize = true;
  const std::string similarity = metadata.text("similarity");
  if (!similarity.empty() && similarity != "cosine") metadata.refuse_value("similarity", similarity, "cosine");
  return settings;
}

LateInteraction read_sentence_transformers(LateInteractionKind kind, const fs::path& root,
                                           const fs::path& transformer) {
  const JsonSettings outer(root / "config_sentence_transformers.json");
  const JsonSettings inner = transformer_settings(transformer);
  LateInteraction settings;
  settings.query_prompt = prompt_in(outer, "query");
  settings.document_prompt = prompt_in(outer, "document");
  const auto prepend = [&](const char* key, std::string& prompt) {
    if (outer.find(key) == nullptr) return;
    const std::string marker = outer.text(key);
    settings.has_markers = true;
    if (!prompt.starts_with(marker)) prompt.insert(0, marker);
  };
  prepend("query_prefix", settings.query_prompt);
  prepend("document_prefix", settings.document_prompt);

  constexpr std::array pylate_keys{"do_query_expansion",    "attend_to_expansion_tokens",
                                   "attend_to_mask_tokens", "query_prefix",
                                   "document_prefix",       "skiplist_words",
                                   "query_length",          "document_length",
                                   "query_expansion"};
  const bool is_pylate = std::ranges::any_of(pylate_keys, [&](const char* key) { return outer.json().contains(key); });
  // The module's own settings take precedence over those of older files.
  const JsonSettings& lengths = inner.json().contains("query_expansion") ? inner : outer;
  settings.document_tokens = inner.count("document_length").value_or(outer.count("document_length").value_or(0));
  if (lengths.json().contains("query_expansion")) {
    if (const Json* value = lengths.find("query_expansion")) settings.expansion = expansion_in(lengths, *value);
    settings.query_tokens = inner.count("query_length").value_or(outer.count("query_length").value_or(0));
  } else if (is_pylate) {
    settings.expansion = flat_expansion(outer, "query_length");
    if (!settings.expansion) settings.query_tokens = outer.count("query_length").value_or(0);
  } else {
    settings.query_tokens = inner.count("query_length").value_or(0);
  }
  if (kind == LateInteractionKind::pylate) {
    settings.skipped_words =
        outer.find("skiplist_words") != nullptr ? texts_in(outer, "skiplist_words") : punctuation();
  }
  const std::string similarity = outer.text("similarity_fn_name");
  settings.is_mean = similarity == "meanmaxsim";
  return settings;
}

}  // namespace

LateInteractionKind late_interaction_kind(const fs::path& root, const fs::path& transformer) {
  const std::string type = JsonSettings(root / "config_sentence_transformers.json").text("model_type");
  if (type == "ColBERT") return LateInteractionKind::pylate;
  if (type == "MultiVectorEncoder") return LateInteractionKind::multi_vector_encoder;
  if (!type.empty()) return LateInteractionKind::none;
  const JsonSettings config(transformer / "config.json");
  const Json* architectures = config.find("architectures");
  const bool is_stanford = architectures != nullptr && architectures->is_array() &&
                           std::ranges::find(*architectures, Json("HF_ColBERT")) != architectures->end();
  return is_stanford ? LateInteractionKind::stanford : LateInteractionKind::none;
}

LateInteraction read_late_interaction(LateInteractionKind kind, const fs::path& root, const fs::path& transformer) {
  LateInteraction settings =
      kind == LateInteractionKind::stanford ? read_stanford(root) : read_sentence_transformers(kind, root, transformer);
  if (!settings.expansion) return settings;
  if (settings.expansion->is_maximum) settings.query_tokens = settings.expansion->length;
  const JsonSettings tokenizer(transformer / "tokenizer_config.json");
  for (const char* key : {"mask_token", "eos_token"}) {
    if (settings.expansion->token.empty()) settings.expansion->token = token_in(tokenizer, key);
  }
  return settings;
}

void read_late_interaction_mask(const fs::path& folder, LateInteraction& settings) {
  const JsonSettings mask(folder / "config.json");
  if (!mask.exists()) mask.refuse("is not there, and modules.json names its MultiVectorMask");
  settings.skipped_words = texts_in(mask, "skiplist_words");
  if (mask.find("skiplist_tasks") != nullptr) {
    const std::vector<std::string> tasks = texts_in(mask, "skiplist_tasks");
    settings.skips_in_documents = std::ranges::find(tasks, "document") != tasks.end();
    settings.skips_in_queries = std::ranges::find(tasks, "query") != tasks.end();
  }
  if (const Json* kept = mask.find("keep_only_token_ids")) {
    mask.refuse_value("keep_only_token_ids", *kept, "null: it is for images");
  }
}

}  // namespace gpux::checkpoint
