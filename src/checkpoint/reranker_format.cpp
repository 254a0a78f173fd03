#include "checkpoint/reranker_format.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/utf8_prefix.h"
#include "checkpoint/decoder_folder.h"
#include "checkpoint/json_settings.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = JsonSettings::Json;

// huggingface.co/Qwen/Qwen3-Reranker-0.6B, "Transformers Usage": prefix, format_instruction() and suffix.
constexpr std::string_view qwen3_sentence =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided.";
constexpr std::array<std::string_view, 3> qwen3_fields{"<Instruct>:", "<Query>:", "<Document>:"};
constexpr std::string_view qwen3_template =
    R"(<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("Given a web search query, retrieve relevant passages that answer the query") }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
<think>

</think>


)";
constexpr std::string_view modules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"},
  {"idx": 1, "name": "1", "path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.LogitScore"}
]
)";

// The card's first part; empty where there is none.
std::string card_in(const fs::path& folder) {
  std::error_code unreadable;
  if (!fs::is_regular_file(folder / "README.md", unreadable)) return {};
  std::ifstream file(folder / "README.md", std::ios::binary);
  constexpr std::size_t max_bytes = std::size_t{1} << 20;
  std::string text(max_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// Whether the metadata of the card, between two lines "---", has this line.
bool has_metadata(std::string_view card, std::string_view key, std::string_view value) {
  if (!card.starts_with("---")) return false;
  const std::size_t end = card.find("\n---", 3);
  std::string_view lines = card.substr(0, end);
  while (!lines.empty()) {
    const std::size_t length = std::min(lines.find('\n'), lines.size());
    std::string line(lines.substr(0, length));
    lines.remove_prefix(std::min(length + 1, lines.size()));
    std::erase_if(line, [](char c) { return c == '"' || c == '\'' || c == ' ' || c == '\r'; });
    if (line == fmt::format("{}:{}", key, value)) return true;
  }
  return false;
}

bool quotes_qwen3(std::string_view card) {
  const auto has = [&](std::string_view part) { return card.find(part) != std::string_view::npos; };
  return has(qwen3_sentence) && std::ranges::all_of(qwen3_fields, has);
}

std::int64_t id_of(const JsonSettings& tokenizer, const std::string& token) {
  const auto is_id = [](const Json& value) { return value.is_number_integer() && value >= 0; };
  if (const Json* model = tokenizer.find("model"); model != nullptr && model->is_object()) {
    const auto vocabulary = model->find("vocab");
    if (vocabulary != model->end() && vocabulary->is_object()) {
      const auto found = vocabulary->find(token);
      if (found != vocabulary->end() && is_id(*found)) return found->get<std::int64_t>();
    }
  }
  if (const Json* added = tokenizer.find("added_tokens"); added != nullptr && added->is_array()) {
    for (const Json& one : *added) {
      if (!one.is_object() || !one.contains("content") || one["content"] != token) continue;
      if (one.contains("id") && is_id(one["id"])) return one["id"].get<std::int64_t>();
    }
  }
  tokenizer.refuse(fmt::format("has no token '{}', which Qwen3-Reranker's format needs", token));
}

void link_files(const fs::path& folder, const fs::path& target) {
  std::error_code error;
  if (!fs::create_directory(target, error)) throw_file_error("make", target, error.value());
  fs::directory_iterator entries(folder, error);
  if (error) throw_file_error("read", folder, error.value());
  for (const fs::directory_iterator end; entries != end; entries.increment(error)) {
    if (error) throw_file_error("read", folder, error.value());
    const fs::path place = target / entries->path().filename();
    fs::create_symlink(fs::absolute(entries->path()), place, error);
    if (error) throw_file_error("make", place, error.value());
  }
}

// A link to the folder's own file gives way.
void replace(const fs::path& file, std::string_view text) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw_file_error("replace", file, error.value());
  write_file_atomically(file, std::string(text));
}

}  // namespace

std::optional<RerankerFormat> reranker_format_from(std::string_view name) noexcept {
  if (name == "qwen3") return RerankerFormat::qwen3;
  return std::nullopt;
}

std::optional<RerankerFormat> reranker_format_in(const fs::path& folder) {
  if (!is_decoder_folder(folder)) return std::nullopt;
  const std::string card = card_in(folder);
  if (!has_metadata(card, "pipeline_tag", "text-ranking")) return std::nullopt;
  if (quotes_qwen3(card)) return RerankerFormat::qwen3;
  throw Error(ErrorCode::invalid_model,
              format_message("{}: its model card (README.md) has pipeline_tag: text-ranking, and nothing in the folder "
                             "says how it reads pairs of texts; accepted: a modules.json with a LogitScore and a chat "
                             "template, or {} qwen3 for Qwen3-Reranker's format",
                             file_at(folder), setting_named("reranker")));
}

RerankerFolder::RerankerFolder(const fs::path& folder, RerankerFormat /*format*/) {
  std::error_code unreadable;
  if (fs::exists(folder / "modules.json", unreadable)) {
    throw Error(ErrorCode::usage,
                format_message("'{}' has a modules.json, which says how it reads texts: it is imported without {}",
                               file_at(folder), setting_named("reranker")));
  }
  if (!is_decoder_folder(folder)) {
    throw Error(ErrorCode::usage,
                format_message("'{}' is no causal language model (architectures in config.json), whose format {} names",
                               file_at(folder), setting_named("reranker")));
  }
  const JsonSettings config(folder / "config.json");
  const std::string type = config.text("model_type");
  if (type != "qwen3") {
    throw Error(ErrorCode::invalid_config,
                format_message("{}: model_type is '{}'; accepted with {} qwen3: qwen3", file_at(config.file()),
                               utf8_prefix(type, 80), setting_named("reranker")));
  }
  const JsonSettings tokenizer(folder / "tokenizer.json");
  if (!tokenizer.exists())
    throw Error(ErrorCode::not_found, format_message("'{}' has no tokenizer.json", file_at(folder)));
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) (void)id_of(tokenizer, token);
  const std::int64_t yes = id_of(tokenizer, "yes"), no = id_of(tokenizer, "no");
  link_files(folder, path());
  replace(path() / "modules.json", modules);
  replace(path() / "chat_template.jinja", qwen3_template);
  fs::create_directory(path() / "1_LogitScore", unreadable);
  write_file_atomically(path() / "1_LogitScore/config.json",
                        Json{{"true_token_id", yes}, {"false_token_id", no}}.dump(2) + "\n");
}

}  // namespace gpux::checkpoint
